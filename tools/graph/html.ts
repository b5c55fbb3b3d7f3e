import type { Graph } from "./model.ts"
import { escaped, svgOf, type Theme } from "./svg.ts"

/** The picture as one HTML page that needs no network: what is pointed at shows its details and configuration beside it. */
export function htmlOf(graph: Graph, title: string, theme: Theme = "auto"): string {
  const members = graph.segments.flatMap((segment) => segment.members)
  const orphans = members.filter(({ orphan }) => orphan.length > 0).length
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
input{font:inherit}.faded{opacity:.18}
</style>
</head>
<body>
<header><h1>${escaped(title)}</h1><span>${members.length} interfaces, ${orphans} orphaned</span>
<label>find <input id="find" type="search" placeholder="pod, address, port"></label></header>
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
</script>
</body>
</html>
`
}
