"use strict";
// Draws the charts of a report and sorts its tables. The page needs no other file and no network.
//
// The address may ask for a view: #sort=weights:weight  #hide=growth:index  #at=growth:12  #panel=curves:SIT
// #theme=dark, joined by &.
(() => {
  const SVG = "http://www.w3.org/2000/svg";
  const DAY = 86400000;
  const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
  const LETTER = 7; // width of a character at 12 px, on average
  const FEW = 24; // points of a line that get a dot each
  const MOST_NAMES = 60; // points of a scatter that may get their names
  const charts = {};

  // Elements.

  function add(parent, tag, attributes = {}, text = null) {
    const inSvg = tag === "svg" || parent.namespaceURI === SVG;
    const made = inSvg ? document.createElementNS(SVG, tag) : document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    if (text !== null) made.textContent = text;
    parent.append(made);
    return made;
  }

  function colour(series) {
    if (series.place === undefined) return series.style;
    // With more series than colours the dashes tell them apart.
    return `s${series.place % 6} ${series.place < 6 ? "" : "dotted"} ${series.style}`;
  }

  // Numbers and days as text.

  function precise(value, digits) {
    if (value === 0) return "0";
    const size = Math.abs(value);
    const text = size < 1e-4 || size >= 1e7 ? value.toExponential(digits - 1) : String(Number(value.toPrecision(digits)));
    return text.replace("-", "−");
  }

  function shown(value, kind, digits = 5) {
    if (value === null) return "–";
    if (kind === "date") return new Date(value).toISOString().slice(0, 10);
    return kind === "percent" ? precise(100 * value, digits - 1) + " %" : precise(value, digits);
  }

  // Ticks.

  function niceTicks(low, high, count, kind) {
    // The next round step may leave one tick or two; three make a scale.
    const ticks = stepTicks(low, high, count, kind);
    return ticks.length >= 3 ? ticks : stepTicks(low, high, 2 * count, kind);
  }

  function stepTicks(low, high, count, kind) {
    const scale = kind === "percent" ? 100 : 1;
    const raw = (scale * (high - low)) / count;
    const power = 10 ** Math.floor(Math.log10(raw));
    const step = power * [1, 2, 5, 10].find((times) => times * power >= raw * (1 - 1e-9));
    const decimals = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
    const ticks = [];
    for (let k = Math.ceil((scale * low) / step - 1e-9); k * step <= scale * high + 1e-9 * step; k++) {
      const value = k * step;
      const plain = decimals > 6 || Math.abs(value) >= 1e7 ? precise(value, 3) : value.toFixed(decimals).replace("-", "−");
      ticks.push({ value: value / scale, text: plain + (kind === "percent" ? " %" : "") });
    }
    return ticks;
  }

  function dateTicks(low, high, count) {
    const days = (high - low) / DAY;
    const months = [1, 2, 3, 6, 12, 24, 60, 120, 240].find((each) => days / 30.4 / each <= count) || 600;
    const each = days / 30.4 > count / 2 ? null : [1, 2, 7, 14].find((some) => days / some <= count) || null;
    const ticks = [];
    if (each !== null) {
      for (let day = Math.ceil(low / DAY); day * DAY <= high; day += each) {
        const date = new Date(day * DAY);
        ticks.push({ value: day * DAY, text: date.getUTCDate() + " " + MONTHS[date.getUTCMonth()] });
      }
      return ticks;
    }
    const first = new Date(low);
    let month = Math.ceil((12 * first.getUTCFullYear() + first.getUTCMonth()) / months) * months;
    for (; Date.UTC(Math.floor(month / 12), month % 12) <= high; month += months) {
      const value = Date.UTC(Math.floor(month / 12), month % 12);
      const year = String(Math.floor(month / 12));
      const named = months < 12 && (month % 12 !== 0 || !ticks.length);
      const text = named ? MONTHS[month % 12] + (ticks.length ? "" : " " + year) : year;
      if (value >= low) ticks.push({ value, text });
    }
    return ticks;
  }

  function logTicks(low, high, count) {
    const value = (power, times) => Number(`${times}e${power}`);
    const text = (each) => (each < 1e-4 || each >= 1e7 ? each.toExponential() : String(each)).replace("-", "−");
    const between = (multiples, step) => {
      const ticks = [];
      for (let power = Math.floor(low); power <= high; power++) {
        if (power % step) continue;
        for (const each of multiples.map((times) => value(power, times))) {
          if (Math.log10(each) >= low - 1e-9 && Math.log10(each) <= high + 1e-9) ticks.push({ value: each, text: text(each) });
        }
      }
      return ticks;
    };
    // Whole powers as long as three of them fit, then parts of them.
    for (let step = Math.max(1, Math.ceil((high - low) / count)); step >= 1; step--) {
      const ticks = between([1], step);
      if (ticks.length >= 3) return ticks;
    }
    for (const multiples of [[1, 3], [1, 2, 5], [1, 1.5, 2, 3, 4, 5, 6, 7, 8, 9]]) {
      const ticks = between(multiples, 1);
      if (ticks.length >= 3) return ticks;
    }
    return stepTicks(10 ** low, 10 ** high, count, "number");
  }

  // Positions on an axis are those of `onScale(value)`.

  function onScale(value, kind) {
    return kind === "log" ? Math.log10(value) : value;
  }

  function hasPlace(value, kind) {
    return value !== null && (kind !== "log" || value > 0);
  }

  function axis(values, kind, withZero) {
    const finite = values.filter((value) => hasPlace(value, kind)).map((value) => onScale(value, kind));
    let low = Math.min(...extent(finite)[0], withZero ? 0 : Infinity);
    let high = Math.max(...extent(finite)[1], withZero ? 0 : -Infinity);
    // Values that differ by rounding alone are equal; ticks between them would have no end.
    const size = Math.max(Math.abs(low), Math.abs(high));
    if (!(high - low > 1e-9 * size + 1e-300)) [low, high] = kind === "date" ? [low - DAY, low + DAY] : [low - (size > 1e-300 ? size : 1) / 10, high + (size > 1e-300 ? size : 1) / 10];
    return { low, high, kind };
  }

  function extent(values) {
    // Math.min(...values) fails on very long lists.
    let low = Infinity;
    let high = -Infinity;
    for (const value of values) {
      if (value < low) low = value;
      if (value > high) high = value;
    }
    return values.length ? [[low], [high]] : [[0], [1]];
  }

  function ticksOf(range, count) {
    if (range.kind === "log") return logTicks(range.low, range.high, count);
    return range.kind === "date" ? dateTicks(range.low, range.high, count) : niceTicks(range.low, range.high, count, range.kind);
  }

  function widen(range) {
    // Some room, so that no dot lies on the frame; bars and dots keep their zero.
    const room = 0.04 * (range.high - range.low);
    if (range.low !== 0 || range.kind === "log") range.low -= room;
    if (range.high !== 0 || range.kind === "log") range.high += room;
  }

  // Drawing. `stops` are the places at which values can be read: where, what to say, which dots to ring.

  function draw(chart) {
    const { spec, figure } = chart;
    const width = Math.max(260, chart.canvas.clientWidth);
    chart.canvas.replaceChildren();
    const before = chart.shown;
    chart.stops = [];
    chart.shown = null;
    chart.tip.hidden = true;
    const seen = spec.series.filter((series) => !series.hidden);
    const byRow = spec.kind === "bar" || spec.kind === "dot";
    const ends = (series) => [series.low || [], series.high || []].flat();
    const x = axis([...(spec.x.reach || []), ...seen.flatMap((series) => [series.x, byRow ? ends(series) : []].flat())], spec.x.kind, byRow);
    const y = byRow ? null : axis([...(spec.y.reach || []), ...seen.flatMap((series) => [series.y, ends(series)].flat())], spec.y.kind, false);
    if (spec.kind !== "line") widen(x);
    if (y) widen(y);
    const place = byRow ? rowFrame(spec, seen, width) : pointFrame(spec, y, width);
    const svg = add(chart.canvas, "svg", {
      viewBox: `0 0 ${width} ${place.height}`, height: place.height, role: "img", tabindex: 0,
      "aria-label": `${figure.querySelector("figcaption").textContent}. Arrow keys read the values.`,
    });
    const right = width - 12;
    const atX = (value) => place.left + ((onScale(value, x.kind) - x.low) / (x.high - x.low)) * (right - place.left);
    const atY = y && ((value) => place.bottom - ((onScale(value, y.kind) - y.low) / (y.high - y.low)) * (place.bottom - place.top));
    for (const tick of ticksOf(x, Math.max(2, Math.floor((right - place.left) / 75)))) {
      if (spec.kind !== "line") add(svg, "line", { class: "grid", x1: atX(tick.value), x2: atX(tick.value), y1: place.top, y2: place.bottom });
      const half = (LETTER * (tick.text.length + 1)) / 2;
      const anchor = atX(tick.value) + half > width ? "end" : atX(tick.value) < half ? "start" : "middle";
      add(svg, "text", { class: "tick", x: atX(tick.value), y: place.bottom + 16, "text-anchor": anchor }, tick.text);
    }
    add(svg, "text", { class: "label", x: right, y: place.bottom + 33, "text-anchor": "end" }, spec.x.label);
    if (y) {
      for (const tick of place.ticks) {
        add(svg, "line", { class: "grid", x1: place.left, x2: right, y1: atY(tick.value), y2: atY(tick.value) });
        add(svg, "text", { class: "tick", x: place.left - 6, y: atY(tick.value) + 4, "text-anchor": "end" }, tick.text);
      }
      add(svg, "text", { class: "label", x: 2, y: 12 }, spec.y.label);
      add(svg, "line", { class: "axis", x1: place.left, x2: right, y1: place.bottom, y2: place.bottom });
    }
    for (const mark of spec.marks) {
      if (onScale(mark, x.kind) >= x.low && onScale(mark, x.kind) <= x.high) add(svg, "line", { class: "mark", x1: atX(mark), x2: atX(mark), y1: place.top, y2: place.bottom });
    }
    const frame = { ...place, right, atX, atY };
    if (spec.kind === "line") drawLines(chart, svg, frame);
    else if (spec.kind === "scatter") drawPoints(chart, svg, frame);
    else drawRows(chart, svg, frame);
    chart.layer = add(svg, "g");
    listen(chart, svg, width);
    if (before !== null && before < chart.stops.length) show(chart, before);
  }

  function pointFrame(spec, y, width) {
    const height = Math.round(Math.min(360, Math.max(230, 0.5 * width)));
    const ticks = ticksOf(y, Math.max(3, Math.floor((height - 60) / 45)));
    const left = 10 + LETTER * Math.max(...ticks.map((tick) => tick.text.length));
    return { height, ticks, left, top: 22, bottom: height - (spec.x.label ? 40 : 24) };
  }

  function rowFrame(spec, seen, width) {
    const longest = Math.max(spec.letters, ...spec.categories.map((name) => name.length));
    const left = Math.min(14 + LETTER * longest, 0.42 * width);
    const each = spec.kind === "bar" ? Math.max(20, 9 * Math.max(1, seen.length) + 6) : 22;
    const height = each * spec.categories.length + 50;
    return { height, left, each, top: 6, bottom: height - 42 };
  }

  function drawLines(chart, svg, { atX, atY }) {
    const stops = new Map();
    const { spec } = chart;
    const seen = spec.series.map((series, k) => [series, k]).filter(([series]) => !series.hidden);
    const canDraw = (value, height) => hasPlace(value, spec.x.kind) && hasPlace(height, spec.y.kind);
    for (const [series, k] of seen) {
      if (!series.low) continue;
      const edge = (heights) => series.x.map((value, i) => (canDraw(value, heights[i]) ? `${atX(value).toFixed(1)} ${atY(heights[i]).toFixed(1)}` : null)).filter((point) => point !== null);
      const around = [...edge(series.high), ...edge(series.low).reverse()];
      add(svg, "path", { class: `area ${colour(series)}`, d: `M${around.join("L")}Z`, "data-series": k });
    }
    for (const [series, k] of seen) {
      let path = "";
      let pen = "M";
      const points = [];
      series.x.forEach((value, i) => {
        if (!canDraw(value, series.y[i])) { pen = "M"; return; }
        const [px, py] = [atX(value), atY(series.y[i])];
        points.push([px, py]);
        path += pen === "L" && series.style === "steps" ? `H${px.toFixed(1)}V${py.toFixed(1)}` : `${pen}${px.toFixed(1)} ${py.toFixed(1)}`;
        pen = "L";
        if (!stops.has(value)) stops.set(value, { x: px, title: shown(value, spec.x.kind), values: [], dots: [] });
        const from = series.low && series.low[i] !== series.high[i] ? ` (${shown(series.low[i], spec.y.kind, 3)} to ${shown(series.high[i], spec.y.kind, 3)})` : "";
        stops.get(value).values.push([k, shown(series.y[i], spec.y.kind) + from]);
        stops.get(value).dots.push([px, py]);
      });
      add(svg, "path", { class: `curve ${colour(series)}`, d: path, "data-series": k });
      if (points.length <= FEW) for (const [px, py] of points) add(svg, "circle", { class: `dot ${colour(series)}`, cx: px.toFixed(1), cy: py.toFixed(1), r: 2.5, "data-series": k });
    }
    chart.stops = [...stops.entries()].sort((one, two) => one[0] - two[0]).map(([, stop]) => stop);
  }

  function drawPoints(chart, svg, { atX, atY, left, right, top, bottom }) {
    const { spec } = chart;
    spec.series.forEach((series, k) => {
      if (series.hidden) return;
      series.x.forEach((value, i) => {
        if (value === null || series.y[i] === null) return;
        const [px, py] = [atX(value), atY(series.y[i])];
        add(svg, "circle", { class: `dot faint ${colour(series)}`, cx: px.toFixed(1), cy: py.toFixed(1), r: 3, "data-series": k });
        const values = [[k, ""], [null, `${spec.x.label}: ${shown(value, spec.x.kind)}`], [null, `${spec.y.label}: ${shown(series.y[i], spec.y.kind)}`]];
        chart.stops.push({ x: px, y: py, title: series.labels ? series.labels[i] : "", values, dots: [[px, py]] });
      });
    });
    chart.stops.sort((one, two) => one.x - two.x);
    nameOutermost(chart.stops, svg, { left, right, top, bottom });
  }

  function nameOutermost(stops, svg, { left, right, top, bottom }) {
    // The farthest from the middle first, as long as a name meets neither another name nor a dot.
    const [cx, cy] = [stops.reduce((sum, stop) => sum + stop.x, 0) / stops.length, stops.reduce((sum, stop) => sum + stop.y, 0) / stops.length];
    const away = (stop) => Math.hypot((stop.x - cx) / (right - left), (stop.y - cy) / (bottom - top));
    const taken = [];
    const named = stops.filter((stop) => stop.title).sort((one, two) => away(two) - away(one)).slice(0, MOST_NAMES);
    for (const stop of named) {
      const width = LETTER * Math.min(stop.title.length, 18);
      const onLeft = stop.x + 8 + width > right;
      const box = [onLeft ? stop.x - 7 - width : stop.x + 7, stop.y - 7, width, 13];
      const meets = (other) => box[0] < other[0] + other[2] && other[0] < box[0] + box[2] && box[1] < other[1] + other[3] && other[1] < box[1] + box[3];
      const covers = (other) => other !== stop && meets([other.x - 3, other.y - 3, 6, 6]);
      if (box[0] < left || taken.some(meets) || stops.some(covers)) continue;
      taken.push(box);
      const text = stop.title.length > 18 ? stop.title.slice(0, 17) + "…" : stop.title;
      add(svg, "text", { class: "name", x: onLeft ? stop.x - 7 : stop.x + 7, y: stop.y + 4, "text-anchor": onLeft ? "end" : "start" }, text);
    }
  }

  function drawRows(chart, svg, { atX, left, right, each, top, bottom }) {
    const { spec } = chart;
    const seen = spec.series.map((series, k) => k).filter((k) => !spec.series[k].hidden);
    const most = Math.floor((left - 14) / LETTER + 0.5);
    spec.categories.forEach((name, row) => {
      const middle = top + (row + 0.5) * each;
      const label = add(svg, "text", { class: "name", x: left - 8, y: middle + 4, "text-anchor": "end" });
      label.textContent = name.length > most ? name.slice(0, Math.max(1, most - 1)) + "…" : name;
      const stop = { y: middle, title: name, values: [], dots: [], band: [0, middle - each / 2, right, each] };
      const brackets = [];
      seen.forEach((k, place) => {
        const value = spec.series[k].x[row];
        if (value === null) return;
        const end = atX(value);
        const kind = `${spec.kind} ${colour(spec.series[k])}`;
        if (spec.kind === "bar") {
          const thick = (each - 6) / seen.length;
          const from = Math.min(atX(0), end);
          add(svg, "rect", { class: kind, x: from, y: middle - (each - 6) / 2 + place * thick, width: Math.max(Math.abs(end - atX(0)), 0.5), height: thick - 1, rx: 1.5, "data-series": k });
        } else add(svg, "circle", { class: kind, cx: end, cy: middle, r: 5, "data-series": k });
        const { low, high } = spec.series[k];
        if (low) brackets.push([low[row], 4], [high[row], -4]);
        const within = low && (low[row] !== null || high[row] !== null) ? ` (limits ${shown(low[row], spec.x.kind)} to ${shown(high[row], spec.x.kind)})` : "";
        stop.values.push([k, shown(value, spec.x.kind) + within]);
        stop.x = end;
      });
      // Limits lie on the bars, with an edge in the colour of the card.
      const rise = Math.min(18, each - 2) / 2;
      for (const [limit, foot] of brackets.filter(([each]) => each !== null)) {
        for (const kind of ["under", "limits"]) add(svg, "path", { class: kind, d: `M${atX(limit) + foot} ${middle - rise}h${-foot}v${2 * rise}h${foot}` });
      }
      chart.stops.push(stop);
    });
    add(svg, "line", { class: "axis", x1: atX(0), x2: atX(0), y1: top, y2: bottom });
  }

  // Reading values: by pointer, by finger, by arrow keys.

  function listen(chart, svg, width) {
    svg.addEventListener("pointermove", (event) => {
      const box = svg.getBoundingClientRect();
      const scale = width / box.width;
      show(chart, nearest(chart, (event.clientX - box.left) * scale, (event.clientY - box.top) * scale));
    });
    svg.addEventListener("pointerleave", () => show(chart, null));
    svg.addEventListener("blur", () => show(chart, null));
    svg.addEventListener("keydown", (event) => {
      const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (by === undefined || !chart.stops.length) return;
      event.preventDefault();
      const next = chart.shown === null ? 0 : chart.shown + by;
      show(chart, Math.min(Math.max(next, 0), chart.stops.length - 1));
    });
  }

  function nearest(chart, x, y) {
    let best = null;
    let least = Infinity;
    chart.stops.forEach((stop, k) => {
      const [dx, dy] = [stop.x - x, stop.y - y];
      const away = { line: Math.abs(dx), bar: Math.abs(dy), dot: Math.abs(dy), scatter: Math.hypot(dx, dy) }[chart.spec.kind];
      if (away < least) [best, least] = [k, away];
    });
    return chart.spec.kind === "scatter" && least > 40 ? null : best;
  }

  function show(chart, k) {
    if (k === chart.shown) return;
    chart.shown = k;
    chart.layer.replaceChildren();
    chart.tip.hidden = k === null;
    if (k === null) return;
    const stop = chart.stops[k];
    const svg = chart.layer.ownerSVGElement;
    const [, , width, height] = svg.getAttribute("viewBox").split(" ").map(Number);
    if (chart.spec.kind === "line") add(chart.layer, "line", { class: "guide", x1: stop.x, x2: stop.x, y1: 22, y2: height - (chart.spec.x.label ? 40 : 24) });
    if (stop.band) add(chart.layer, "rect", { class: "band", x: 0, y: stop.band[1], width: stop.band[2], height: stop.band[3] });
    for (const [x, y] of stop.dots) add(chart.layer, "circle", { class: "ring", cx: x, cy: y, r: 4.5 });
    chart.tip.replaceChildren();
    const along = chart.spec.kind === "line" && chart.spec.x.label ? `${chart.spec.x.label}: ` : "";
    if (stop.title) add(chart.tip, "b", {}, along + stop.title);
    for (const [series, text] of stop.values) {
      const line = add(chart.tip, "div");
      if (series !== null) add(line, "span", { class: `swatch ${colour(chart.spec.series[series])}` });
      const name = series === null ? "" : chart.spec.series[series].name;
      line.append(name && text ? `${name}: ${text}` : name || text);
    }
    const x = stop.x === undefined ? width / 2 : stop.x;
    const aside = x > width / 2 ? x - chart.tip.offsetWidth - 12 : x + 16;
    const top = chart.canvas.offsetTop + Math.min(Math.max((stop.y || 60) - 20, 0), Math.max(0, height - chart.tip.offsetHeight));
    chart.tip.style.left = `${Math.max(4, Math.min(chart.canvas.offsetLeft + aside, chart.figure.clientWidth - chart.tip.offsetWidth - 4))}px`;
    chart.tip.style.top = `${top}px`;
  }

  function toggle(chart, k, hidden) {
    const { series } = chart.spec;
    // The last one stays.
    if (hidden && series.filter((each) => !each.hidden).length === 1) return;
    series[k].hidden = hidden;
    chart.figure.querySelectorAll(".legend button")[k].setAttribute("aria-pressed", String(!hidden));
    draw(chart);
  }

  function prepare(spec) {
    const days = (values) => values.map((value) => (value === null ? null : Date.parse(value)));
    for (const series of spec.series) if (spec.x.kind === "date") series.x = days(series.x);
    if (spec.x.kind === "date") spec.marks = days(spec.marks);
    // What is muted takes no colour, a family takes one.
    const coloured = spec.series.filter((series) => !series.style.includes("muted"));
    const families = [...new Set(coloured.map((series) => series.family || series.name))];
    for (const series of coloured) series.place = families.indexOf(series.family || series.name);
  }

  function choose(chart, k) {
    // What is hidden stays so, by name.
    const hidden = chart.spec ? chart.spec.series.filter((series) => series.hidden).map((series) => series.name) : [];
    chart.spec = chart.panels[k];
    chart.shown = null;
    const { series } = chart.spec;
    for (const each of series) each.hidden = hidden.includes(each.name);
    if (series.every((each) => each.hidden)) series[0].hidden = false;
    chart.legend.replaceChildren();
    if (series.length > 1) {
      series.forEach((each, place) => {
        const button = add(chart.legend, "button", { type: "button", "aria-pressed": String(!each.hidden), title: "Show or hide" });
        add(button, "span", { class: `swatch ${colour(each)}` });
        button.append(each.name);
        button.addEventListener("click", () => toggle(chart, place, !each.hidden));
      });
    }
    if (chart.list) chart.list.value = k;
    draw(chart);
  }

  function begin(figure, given) {
    const chart = { figure, panels: given.panels || [given], stops: [], shown: null };
    chart.panels.forEach(prepare);
    charts[figure.id] = chart;
    if (chart.panels.length > 1) {
      const label = add(figure, "label", { class: "picker" }, "Show ");
      chart.list = add(label, "select");
      chart.panels.forEach((panel, k) => add(chart.list, "option", { value: k }, panel.label));
      chart.list.addEventListener("change", () => choose(chart, Number(chart.list.value)));
    } else if (given.panels) add(figure, "p", { class: "note" }, given.panels[0].label);
    chart.legend = add(figure, "div", { class: "legend", role: "group", "aria-label": "Series" });
    chart.canvas = add(figure, "div", { class: "canvas" });
    chart.tip = add(figure, "div", { class: "tip", role: "status", hidden: "" });
    choose(chart, 0);
    let width = chart.canvas.clientWidth;
    new ResizeObserver(() => {
      if (chart.canvas.clientWidth === width) return;
      width = chart.canvas.clientWidth;
      draw(chart);
    }).observe(chart.canvas);
  }

  // Tables.

  function sort(table, column, direction = null) {
    const heads = [...table.tHead.rows[0].cells];
    const head = heads[column];
    const isNumber = head.classList.contains("number");
    const before = head.getAttribute("aria-sort");
    const first = isNumber ? "descending" : "ascending";
    const other = isNumber ? "ascending" : "descending";
    const way = direction || (before === first ? other : first);
    const sign = way === "ascending" ? 1 : -1;
    const key = (row) => {
      const cell = row.cells[column];
      if (!isNumber) return cell.textContent;
      return cell.dataset.value === undefined ? null : Number(cell.dataset.value);
    };
    const compare = isNumber ? (one, two) => one - two : (one, two) => one.localeCompare(two, undefined, { numeric: true });
    const rows = [...table.tBodies[0].rows].map((row) => [key(row), row]);
    rows.sort(([one], [two]) => {
      if (one === null || two === null) return (one === null) - (two === null); // what is missing comes last
      return sign * compare(one, two);
    });
    table.tBodies[0].append(...rows.map(([, row]) => row));
    for (const each of heads) each.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", way);
  }

  // The address and the theme.

  function setTheme(name) {
    document.documentElement.dataset.theme = name;
    document.getElementById("theme").textContent = name === "dark" ? "Light" : "Dark";
  }

  function isDark() {
    const chosen = document.documentElement.dataset.theme;
    return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  }

  function follow() {
    const asked = new URLSearchParams(location.hash.slice(1));
    if (["light", "dark"].includes(asked.get("theme"))) setTheme(asked.get("theme"));
    for (const text of asked.getAll("sort")) {
      const [name, column, way] = text.split(":");
      const table = document.getElementById(name);
      const heads = table && table.tHead ? [...table.tHead.rows[0].cells] : [];
      const k = heads.findIndex((head) => head.dataset.column === column);
      if (k >= 0) sort(table, k, ["ascending", "descending"].includes(way) ? way : null);
    }
    for (const text of asked.getAll("panel")) {
      const [name, label] = text.split(":");
      const k = charts[name] ? charts[name].panels.findIndex((panel) => panel.label === label) : -1;
      if (k >= 0) choose(charts[name], k);
    }
    for (const text of asked.getAll("hide")) {
      const [name, series] = text.split(":");
      const k = charts[name] ? charts[name].spec.series.findIndex((each) => each.name === series) : -1;
      if (k >= 0) toggle(charts[name], k, true);
    }
    for (const text of asked.getAll("at")) {
      const [name, k] = text.split(":");
      if (charts[name] && charts[name].stops[k]) show(charts[name], Number(k));
    }
  }

  const button = document.getElementById("theme");
  button.hidden = false;
  button.textContent = isDark() ? "Light" : "Dark";
  button.addEventListener("click", () => setTheme(isDark() ? "light" : "dark"));
  const specs = JSON.parse(document.getElementById("data").textContent);
  for (const [name, spec] of Object.entries(specs)) begin(document.getElementById(name), spec);
  for (const table of document.querySelectorAll("table")) {
    [...table.tHead.rows[0].cells].forEach((head, k) => head.firstChild.addEventListener("click", () => sort(table, k)));
  }
  follow();
  addEventListener("hashchange", follow);
})();
