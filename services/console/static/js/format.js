// Numbers as text. Three significant digits: more would only flicker.

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

export function amount(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  const size = Math.abs(value);
  if (size >= 1000) return whole.format(value);
  if (size >= 100) return value.toFixed(0);
  if (size >= 10) return value.toFixed(1);
  if (size >= 1) return value.toFixed(2);
  return value === 0 ? "0" : size < 0.0005 ? "<0.001" : value.toFixed(3);
}

export function count(value) {
  return value === null || value === undefined ? "–" : whole.format(value);
}

export function clock(seconds) {
  return new Date(seconds * 1000).toLocaleTimeString("en-GB");
}

export const byId = (id) => document.getElementById(id);

// An element with attributes and children: text goes in as text, never as markup.
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "class") made.className = value;
    else if (value !== null && value !== undefined && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children);
  return made;
}
