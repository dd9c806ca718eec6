// The form of a policy's parameters, made from their types, bounds and defaults.

import { element } from "./format.js";

// Draw a form; return a function that reads it.
export function parameterForm(holder, parameters, values, disabled) {
  const readers = parameters.map((parameter) => {
    const value = values[parameter.name] ?? parameter.default;
    const id = `parameter-${parameter.name}`;
    const label = element("label", { for: id }, parameter.name);
    const [input, read] = field(parameter, value, id);
    input.disabled = disabled;
    input.dataset.parameter = parameter.name;
    const box = element("div", { class: parameter.truth ? "truth" : "" }, ...(parameter.truth ? [input, label] : [label, input]));
    box.title = parameter.about;
    holder.append(box);
    return [parameter, value, read];
  });
  return () => Object.fromEntries(readers.map(([parameter, , read]) => [parameter.name, read()]).filter(([, value]) => value !== undefined));
}

function field(parameter, value, id) {
  const { choices, number, truth, list, empty } = parameter;
  if (truth) {
    const input = element("input", { type: "checkbox", id });
    input.checked = value;
    return [input, () => input.checked];
  }
  if (choices.length && !number && !list) {
    const input = element("select", { id }, ...choices.map((choice) => element("option", { value: choice }, choice)));
    input.value = value;
    return [input, () => input.value];
  }
  if (number && !choices.length && !list) {
    const { whole, least, most } = number;
    const input = element("input", { type: "number", id, min: least, max: most, step: whole ? "1" : "any" });
    input.value = value ?? "";
    if (empty) input.placeholder = "none";
    return [input, () => (input.value === "" ? undefined : Number(input.value))];
  }
  const options = element("datalist", { id: `${id}-choices` }, ...choices.map((choice) => element("option", { value: choice })));
  const input = element("input", { type: "text", id, list: options.id, autocomplete: "off", spellcheck: "false" });
  input.value = Array.isArray(value) ? value.join(", ") : value ?? "";
  input.placeholder = [...choices, number && "a number", list && "numbers with commas"].filter(Boolean).join(", ");
  input.after(options);
  return [input, () => parse(input.value.trim(), choices, list)];
}

// What is not understood goes as text: the console says what was expected.
function parse(text, choices, list) {
  if (text === "") return undefined;
  if (choices.includes(text)) return text;
  if (list && text.includes(",")) return text.split(",").map(Number);
  return Number.isNaN(Number(text)) ? text : Number(text);
}
