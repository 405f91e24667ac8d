// The widget of widget.py: every head small, the chosen one large with its tokens, its numbers under the pointer and by
// arrow keys. All it shows was sent with it, so it needs no server; what is chosen goes back to Python.
const LARGE = 420, SMALL = 34, LABEL = 90;
const INK = [16, 72, 140];

const STYLE = `
.headscope-map { display: flex; flex-wrap: wrap; gap: 16px; font: 12px/1.4 var(--jp-ui-font-family, system-ui, sans-serif);
  color: var(--jp-ui-font-color1, #16191d); align-items: flex-start; }
.headscope-map .heads { display: grid; gap: 2px; max-height: 520px; overflow: auto; }
.headscope-map button { all: unset; cursor: pointer; line-height: 0; outline: 1px solid var(--jp-border-color2, #d5d8da); }
.headscope-map :is(button, [role="application"]):focus-visible, .headscope-map button[aria-pressed="true"] { outline: 2px solid var(--jp-brand-color1, #1b62b5); position: relative; z-index: 1; }
.headscope-map canvas { background: #fff; image-rendering: pixelated; }
.headscope-map output { display: block; min-height: 2.8em; }`;

function pixelsOf(model, layer, head) {
  const tokens = model.get("tokens").length;
  const at = (model.get("layers").indexOf(layer) * model.get("heads").length + model.get("heads").indexOf(head)) * tokens * tokens;
  const view = model.get("maps");
  return new Uint8Array(view.buffer, view.byteOffset + at, tokens * tokens);
}

// A byte is 255 times the square root of a value over the map's largest.
function paint(canvas, bytes, tokens) {
  canvas.width = canvas.height = tokens;
  const context = canvas.getContext("2d");
  const image = context.createImageData(tokens, tokens);
  bytes.forEach((b, k) => image.data.set([...INK.map((c) => 255 - ((255 - c) * b) / 255), 255], 4 * k));
  context.putImageData(image, 0, 0);
}

function element(tag, props = {}, ...children) {
  const made = Object.assign(document.createElement(tag), props);
  made.append(...children);
  return made;
}

function drawLarge(canvas, model) {
  const tokens = model.get("tokens"), cell = LARGE / tokens.length;
  const map = document.createElement("canvas");
  paint(map, pixelsOf(model, model.get("layer"), model.get("head")), tokens.length);
  const ratio = window.devicePixelRatio || 1;
  canvas.width = canvas.height = (LARGE + LABEL) * ratio;
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  context.imageSmoothingEnabled = false;
  context.drawImage(map, LABEL, LABEL, LARGE, LARGE);
  context.strokeStyle = "#d5d8da";
  context.strokeRect(LABEL, LABEL, LARGE, LARGE);
  const size = Math.min(11, cell), every = Math.ceil(9 / cell);
  context.fillStyle = "#16191d";
  context.font = `${Math.max(8, size)}px system-ui, sans-serif`;
  context.textBaseline = "middle";
  tokens.forEach((token, k) => {
    if (k % every) return;
    const middle = LABEL + (k + 0.5) * cell;
    context.textAlign = "right";
    context.fillText(token, LABEL - 5, middle, LABEL - 8);
    context.save();
    context.translate(middle, LABEL - 5);
    context.rotate(-Math.PI / 2);
    context.textAlign = "left";
    context.fillText(token, 0, 0, LABEL - 8);
    context.restore();
  });
  const [i, j] = model.get("pair");
  if (i === undefined) return;
  context.strokeStyle = "#b8460e";
  context.lineWidth = 2;
  context.strokeRect(LABEL + j * cell, LABEL + i * cell, cell, cell);
}

function placeOf(event, canvas, n) {
  const box = canvas.getBoundingClientRect();
  const scale = (LARGE + LABEL) / box.width;
  const [x, y] = [event.clientX - box.left, event.clientY - box.top].map((v) => Math.floor(((v * scale - LABEL) / LARGE) * n));
  return x >= 0 && y >= 0 && x < n && y < n ? [y, x] : null;
}

// The place that a key leads to from another one, or null. The first key leads to the first place.
function stepFrom([i, j], { key, altKey, ctrlKey, metaKey }, rows, columns) {
  const to = { ArrowUp: [i - 1, j], ArrowDown: [i + 1, j], ArrowLeft: [i, j - 1], ArrowRight: [i, j + 1], Home: [i, 0], End: [i, columns - 1] }[key];
  if (!to || altKey || ctrlKey || metaKey) return null;
  if (i === undefined) return [0, 0];
  return [Math.max(0, Math.min(rows - 1, to[0])), Math.max(0, Math.min(columns - 1, to[1]))];
}

function render({ model, el }) {
  const tokens = model.get("tokens"), layers = model.get("layers"), heads = model.get("heads");
  const large = element("canvas", { style: `width:${LARGE + LABEL}px;max-width:100%;aspect-ratio:1` });
  large.tabIndex = 0;
  large.setAttribute("role", "application"); // its keys are its own; the output, which is live, says the values
  large.setAttribute("aria-roledescription", "map");
  const choose = (values) => { model.set(values); model.save_changes(); };
  const onKeys = (place, from, rows, columns, go) => {
    place.dataset.lmSuppressShortcuts = "true"; // those of JupyterLab
    place.onkeydown = (event) => {
      const to = stepFrom(from(), event, rows, columns);
      if (!to) return;
      event.preventDefault();
      event.stopPropagation();
      go(to);
    };
  };
  const output = element("output"), title = element("b"), grid = element("div", { className: "heads" });
  grid.setAttribute("role", "group");
  grid.setAttribute("aria-label", `Heads: ${model.get("what")}`);
  grid.style.gridTemplateColumns = `repeat(${heads.length}, ${SMALL}px)`;
  const buttons = layers.flatMap((layer) => heads.map((head) => {
    const small = element("canvas", { style: `width:${SMALL}px;height:${SMALL}px` });
    paint(small, pixelsOf(model, layer, head), tokens.length);
    const button = element("button", { title: `layer ${layer}, head ${head}`, type: "button" }, small);
    button.setAttribute("aria-label", button.title);
    button.onclick = () => choose({ layer, head });
    return { layer, head, button };
  }));
  grid.append(...buttons.map(({ button }) => button));
  const chosen = () => [layers.indexOf(model.get("layer")), heads.indexOf(model.get("head"))];
  onKeys(grid, chosen, layers.length, heads.length, ([l, h]) => {
    choose({ layer: layers[l], head: heads[h] });
    buttons[l * heads.length + h].button.focus();
  });
  onKeys(large, () => model.get("pair"), tokens.length, tokens.length, (pair) => choose({ pair }));
  const tell = ([i, j]) => {
    const byte = pixelsOf(model, model.get("layer"), model.get("head"))[i * tokens.length + j];
    const scale = model.get("scales")[layers.indexOf(model.get("layer")) * heads.length + heads.indexOf(model.get("head"))];
    output.textContent = `${tokens[i]} (${i}) → ${tokens[j]} (${j}): ${(scale * (byte / 255) ** 2).toPrecision(2)}`;
  };
  const draw = () => {
    title.textContent = `${model.get("what")} of ${model.get("name")}, layer ${model.get("layer")}, head ${model.get("head")}`;
    large.setAttribute("aria-label", `${title.textContent}. Arrow keys read its values.`);
    for (const { layer, head, button } of buttons) {
      const pressed = layer === model.get("layer") && head === model.get("head");
      button.setAttribute("aria-pressed", String(pressed));
      button.tabIndex = pressed ? 0 : -1;
    }
    drawLarge(large, model);
    if (model.get("pair").length) tell(model.get("pair"));
  };
  large.onpointermove = (event) => { const at = placeOf(event, large, tokens.length); if (at) tell(at); };
  large.onclick = (event) => choose({ pair: placeOf(event, large, tokens.length) ?? [] });
  el.append(element("style", { textContent: STYLE }),
    element("div", { className: "headscope-map" }, grid, element("div", {}, title, element("br"), large, output)));
  draw();
  model.on("change:layer change:head change:pair", draw);
  return () => model.off("change:layer change:head change:pair", draw);
}

export default { render };
