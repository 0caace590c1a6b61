// Axes: ranges of numbers, places on the screen, and ticks that people can read.

const SUPERSCRIPT = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹" };
const power = (k) => (k >= -3 && k <= 3 ? String(Number(10 ** k))
  : `10${[...String(k)].map((letter) => SUPERSCRIPT[letter]).join("")}`);

// All the numbers, and 0 if asked for, with a little room on both sides.
function extent(values, { log = false, zero = false } = {}) {
  const shown = values.filter((value) => value !== null && (!log || value > 0));
  if (!shown.length) return log ? [0.1, 1] : [0, 1];
  const high = greatest(shown);
  const low = Math.min(least(shown), zero ? 0 : Infinity);
  if (log) {
    const room = Math.max(0.05 * Math.log10(high / low), 0.08);
    return [low / 10 ** room, high * 10 ** room];
  }
  const room = 0.04 * (high - low) || 0.5;
  return [low - room, high + room];
}

function niceStep(length, count, whole) {
  const rough = length / count;
  const unit = 10 ** Math.floor(Math.log10(rough));
  const step = unit * [1, 2, 5, 10].find((factor) => factor * unit >= rough * 0.999);
  return whole ? Math.max(1, Math.round(step)) : step;
}

function linearTicks(low, high, count, whole) {
  const step = niceStep(high - low, count, whole);
  const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  const ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high * (1 + 1e-12) + 1e-300; i += 1) {
    const value = i * step;
    const text = Math.abs(value) >= 1e5 ? short(value) : value.toFixed(digits);
    ticks.push({ value, text: text.replace(/^-(?=0\.?0*$)/, "").replaceAll("-", "−"), major: true });
  }
  return ticks;
}

// Powers of ten, few enough to be read, and without labels what is between; below one decade as on a plain axis.
function logarithmicTicks(low, high, count) {
  const [first, last] = [Math.ceil(Math.log10(low) - 1e-9), Math.floor(Math.log10(high) + 1e-9)];
  if (last - first < 1) return linearTicks(low, high, count, false);
  const every = Math.ceil((last - first + 1) / count);
  const ticks = [];
  for (let k = first - 1; k <= last; k += 1) {
    const labeled = (k - first) % every === 0;
    ticks.push({ value: 10 ** k, text: labeled ? power(k) : "", major: labeled });
    if (last - first <= 4) {
      for (let factor = 2; factor < 10; factor += 1) ticks.push({ value: factor * 10 ** k, text: "", major: false });
    }
  }
  return ticks.filter(({ value }) => value >= low && value <= high);
}

// From numbers to places on the screen and back, between `from` and `to`.
function scale([low, high], from, to, { log = false, whole = false, count = 5 } = {}) {
  const of = log ? Math.log10 : (value) => value;
  const [start, length] = [of(low), of(high) - of(low)];
  const place = (value) => from + ((to - from) * (of(value) - start)) / length;
  const value = (at) => {
    const found = start + (length * (at - from)) / (to - from);
    return log ? 10 ** found : found;
  };
  const ticks = log ? logarithmicTicks(low, high, count) : linearTicks(low, high, count, whole);
  return { place, value, ticks, zoomed: (factor, at) => around([start, start + length], factor, of(at), log) };
}

// The range made longer or shorter, with what is at `at` left in its place.
function around([start, end], factor, at, log) {
  const range = [at - (at - start) * factor, at + (end - at) * factor];
  return log ? range.map((found) => 10 ** found) : range;
}
