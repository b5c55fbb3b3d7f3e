import { escaped } from "./boxes.ts"
import type { Graph } from "./model.ts"
import { svgOf, type Theme } from "./svg.ts"

/**
 * Returns the picture as one HTML page that needs no network. The object under the pointer shows its details and
 * configuration in a panel. A picture larger than the window is scaled to fit. Buttons, keys, and the wheel with Ctrl
 * zoom it.
 */
export function htmlOf(graph: Graph, title: string, theme: Theme = "auto"): string {
  const members = graph.segments.flatMap((segment) => segment.members)
  const orphans = members.filter(({ orphan }) => orphan.length > 0).length
  const marked = [graph, ...graph.uplinks, ...graph.segments, ...members]
  const faults = new Set(marked.flatMap(({ faults = [] }) => faults.map(({ text }) => text))).size
  const scheme = theme === "auto" ? "light dark" : theme
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="${scheme}">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<title>${escaped(title)}</title>
<style>
:root{color-scheme:${scheme}}
body{margin:0;font:13px ui-sans-serif,system-ui,"DejaVu Sans",sans-serif;display:grid;grid-template:auto 1fr/1fr 340px;height:100vh}
header{grid-column:1/3;display:flex;gap:20px;align-items:baseline;padding:10px 24px;border-bottom:1px solid GrayText}
h1{font-size:15px;margin:0}main{overflow:auto}aside{overflow:auto;border-left:1px solid GrayText;padding:12px 16px}
pre{white-space:pre-wrap;overflow-wrap:anywhere;margin:0;font:11.5px ui-monospace,"DejaVu Sans Mono",monospace}
input,button{font:inherit}.faded{opacity:.18}main svg{display:block}#zoom{display:inline-block;min-width:4em;text-align:right}
</style>
</head>
<body>
<header><h1>${escaped(title)}</h1><span>${members.length} interfaces, ${orphans} orphaned${faults > 0 ? `, ${faults} faults` : ""}</span>
<label>find <input id="find" type="search" placeholder="pod, address, port"></label>
<span><button id="fit" title="key 0">fit</button> <button id="out" title="key -">−</button>
<button id="in" title="key +">+</button> <output id="zoom"></output></span></header>
<main>${svgOf(graph, theme)}</main>
<aside aria-live="polite"><pre id="details">Point at a box: it shows what is known, and the configuration that made it.</pre></aside>
<script>
const details = document.getElementById("details")
const boxes = [...document.querySelectorAll("svg g[data-id]")]
for (const box of boxes) {
  const title = box.querySelector("title")
  const text = title.textContent
  title.remove() // the panel says it
  box.setAttribute("aria-label", text.split("\\n", 1)[0])
  const show = () => { details.textContent = text }
  box.addEventListener("pointerenter", show)
  box.addEventListener("focus", show)
  box.dataset.text = text.toLowerCase()
}
document.getElementById("find").addEventListener("input", (event) => {
  const sought = event.target.value.toLowerCase()
  for (const box of boxes) box.classList.toggle("faded", !box.dataset.text.includes(sought))
})
const main = document.querySelector("main")
const svg = main.querySelector("svg")
const { width, height } = svg.viewBox.baseVal
let scale = 1
/** Enlarges the picture, with the point of the window where it is; without a point that is the middle. */
const zoom = (to, x = main.clientWidth / 2, y = main.clientHeight / 2) => {
  const next = Math.min(4, Math.max(0.05, to))
  const [left, top] = [((main.scrollLeft + x) * next) / scale - x, ((main.scrollTop + y) * next) / scale - y]
  scale = next
  svg.setAttribute("width", width * scale)
  svg.setAttribute("height", height * scale)
  main.scrollTo(left, top)
  document.getElementById("zoom").textContent = Math.round(scale * 100) + " %"
}
const fit = () => {
  main.style.overflow = "hidden" // bars that go would take room
  zoom(Math.min(1, main.clientWidth / width, main.clientHeight / height))
  main.style.overflow = ""
}
const steps = { "+": () => zoom(scale * 1.25), "-": () => zoom(scale / 1.25), 0: fit }
document.getElementById("in").addEventListener("click", steps["+"])
document.getElementById("out").addEventListener("click", steps["-"])
document.getElementById("fit").addEventListener("click", fit)
document.addEventListener("keydown", ({ key, target, ctrlKey, metaKey }) => {
  if (target.tagName !== "INPUT" && !ctrlKey && !metaKey) steps[key]?.()
})
main.addEventListener("dblclick", ({ clientX, clientY }) => {
  const { left, top } = main.getBoundingClientRect()
  zoom(scale < 1 ? 1 : scale * 1.25, clientX - left, clientY - top)
})
main.addEventListener("wheel", (event) => {
  if (!event.ctrlKey) return
  event.preventDefault()
  const { left, top } = main.getBoundingClientRect()
  zoom(scale * Math.exp(-event.deltaY / 300), event.clientX - left, event.clientY - top)
}, { passive: false })
fit()
</script>
</body>
</html>
`
}
