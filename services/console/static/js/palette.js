// Colours of queue lengths: viridis, whose lightness rises evenly, so that it reads the same with any colour vision.
// In the light theme it runs the other way, so that a long queue always stands out from the page.

const VIRIDIS = [
  [68, 1, 84], [72, 40, 120], [62, 74, 137], [49, 104, 142], [38, 130, 142],
  [31, 158, 137], [53, 183, 121], [109, 205, 89], [180, 222, 44], [253, 231, 37],
];
const STEPS = [4, 8, 12, 16, 20, 30, 40, 50, 80, 100, 150, 200, 300, 500, 1000, 2000, 5000, 10000];

// The colour of an idle server: that of nothing, close to the page.
const IDLE = { light: "rgb(226 232 239)", dark: "rgb(31 41 52)" };

function mix(share) {
  const place = Math.min(Math.max(share, 0), 1) * (VIRIDIS.length - 1);
  const low = Math.floor(place);
  const high = Math.min(low + 1, VIRIDIS.length - 1);
  return VIRIDIS[low].map((value, i) => Math.round(value + (VIRIDIS[high][i] - value) * (place - low)));
}

// The longest queue that has a colour of its own, a round number. It grows at once and shrinks when there is much room.
export function scaleTop(longest, before) {
  const wanted = STEPS.find((step) => step >= longest) ?? STEPS.at(-1);
  return wanted > before || longest * 3 < before ? wanted : before;
}

// All colours from 0 to top, as CSS; index: the queue length.
export function colours(top, theme) {
  const dark = theme === "dark";
  const found = [dark ? IDLE.dark : IDLE.light];
  for (let length = 1; length <= top; length += 1) {
    const share = top === 1 ? 1 : (length - 1) / (top - 1);
    const [red, green, blue] = mix(dark ? 0.2 + 0.8 * share : 0.88 - 0.88 * share);
    found.push(`rgb(${red} ${green} ${blue})`);
  }
  return found;
}
