import { expect, test } from "bun:test"
import { NodeLab } from "../cni/node-lab.ts"
import { mustRun, programEnv, TemporaryDirectory } from "../lab/mod.ts"

/** Everything drawn, measured by the browser: run inside the page. */
const measure = `
const zoomText = () => document.getElementById("zoom").textContent
const rectOf = (selector) => document.querySelector(selector).getBoundingClientRect().toJSON()
const fitted = { zoom: zoomText(), main: rectOf("main"), svg: rectOf("main svg") }
document.getElementById("in").click()
const nearer = zoomText()
document.getElementById("out").click()
const farther = zoomText()
const middle = document.querySelector("svg g.member rect").getBoundingClientRect()
const point = { clientX: middle.x + middle.width / 2, clientY: middle.y + middle.height / 2 }
const under = () => document.elementFromPoint(point.clientX, point.clientY).closest("g")?.dataset.id
const before = under()
document.querySelector("main").dispatchEvent(new MouseEvent("dblclick", point))
const zoomed = { zoom: zoomText(), isSame: before !== undefined && under() === before, overflows: document.querySelector("main").scrollWidth > rectOf("main").width }
document.dispatchEvent(new KeyboardEvent("keydown", { key: "0" }))
const again = zoomText()
while (Number.parseInt(zoomText()) < 100) document.getElementById("in").click()
const boxes = [...document.querySelectorAll("svg g[data-id]")].map((group) => ({
  id: group.dataset.id,
  rect: group.querySelector("rect").getBoundingClientRect().toJSON(),
  texts: [...group.querySelectorAll("text")].map((one) => ({ text: one.textContent, ...one.getBoundingClientRect().toJSON() })),
}))
const channels = (colour) => colour.match(/[\\d.]+/g).slice(0, 3).map((each) => {
  const value = Number(each) / 255
  return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4
})
const luminance = (colour) => { const [r, g, b] = channels(colour); return 0.2126 * r + 0.7152 * g + 0.0722 * b }
const contrasts = [...document.querySelectorAll("svg g[data-id] text")].map((one) => {
  const pair = [luminance(getComputedStyle(one).fill), luminance(getComputedStyle(one.parentNode.querySelector("rect")).fill)].sort()
  return (pair[1] + 0.05) / (pair[0] + 0.05)
})
document.querySelector("svg g.member").dispatchEvent(new PointerEvent("pointerenter"))
const details = document.getElementById("details").textContent
const find = document.getElementById("find")
find.value = "web-2"
find.dispatchEvent(new Event("input"))
const faded = document.querySelectorAll("svg g.member.faded").length
const faulty = document.querySelectorAll("svg g.member.faulty, svg g.member.doubtful").length
const answer = { fitted, nearer, farther, zoomed, again, faulty, boxes, contrast: Math.min(...contrasts), details, faded, background: getComputedStyle(document.querySelector("svg .bg")).fill }
document.body.innerHTML = ""
document.body.appendChild(Object.assign(document.createElement("pre"), { id: "answer", textContent: JSON.stringify(answer) }))
`

interface Rect {
  left: number
  right: number
  top: number
  bottom: number
}

interface Measured {
  boxes: { id: string; rect: Rect; texts: (Rect & { text: string })[] }[]
  contrast: number
  details: string
  faded: number
  faulty: number
  fitted: { zoom: string; main: Rect; svg: Rect }
  nearer: string
  farther: string
  zoomed: { zoom: string; isSame: boolean; overflows: boolean }
  again: string
  background: string
}

/** Headless Chromium, with no way to any network. */
async function chromium(profile: TemporaryDirectory, ...args: string[]): Promise<string> {
  const flags = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--hide-scrollbars",
    "--host-resolver-rules=MAP * ~NOTFOUND",
  ]
  const places = [`--user-data-dir=${profile.join("profile")}`, "--window-size=1600,1000"]
  const env = { ...programEnv, HOME: profile.path }
  return (await mustRun(["unshare", "--net", "chromium", ...flags, ...places, ...args], { env })).stdout
}

async function measured(page: string, profile: TemporaryDirectory): Promise<Measured> {
  const html = await Bun.file(page).text()
  const copy = `${page}.measured.html`
  await Bun.write(copy, html.replace("</body>", `<script>{${measure}}</script></body>`))
  const dom = await chromium(profile, "--dump-dom", `file://${copy}`)
  const [, json = ""] = /<pre id="answer">(.*?)<\/pre>/s.exec(dom) ?? []
  const entities: Record<string, string> = { "&lt;": "<", "&gt;": ">", "&amp;": "&", "&quot;": '"' }
  return JSON.parse(json.replace(/&(lt|gt|amp|quot);/g, (each) => entities[each] ?? each))
}

function overlaps(a: Rect, b: Rect): boolean {
  return a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom
}

for (const pods of [3, 110]) {
  test(`${pods} pods: nothing overlaps, every text is inside its box and readable, light and dark, without a network`, async () => {
    await using lab = await NodeLab.create()
    await using profile = await TemporaryDirectory.create("cni-browser")
    for (let at = 1; at <= pods; at++) await lab.addPod(`web-${at}`)
    // A fault for doctor: the rules of the published ports are gone.
    await lab.host.exec("nft", ["delete", "table", "ip", "cni_hostports"])
    const backgrounds: string[] = []
    for (const theme of ["light", "dark"]) {
      const page = profile.join(`${theme}.html`)
      const drawn = await lab.cni(["graph", "-o", "html", "--theme", theme, "--write", page])
      expect(drawn).toMatchObject({ exitCode: 0, stderr: "" })
      const html = await Bun.file(page).text()
      expect(html.replaceAll('xmlns="http://www.w3.org/2000/svg"', "")).not.toMatch(/https?:|src=|@import|url\(/)
      const { boxes, contrast, details, faded, background, ...seen } = await measured(page, profile)
      const { main, svg, zoom } = seen.fitted
      expect([svg.left >= main.left, svg.right <= main.right, svg.bottom <= main.bottom]).toEqual([true, true, true])
      const percent = (text: string) => Number.parseInt(text, 10)
      if (pods > 20) expect(percent(zoom)).toBeLessThan(80) // it would not fit otherwise
      expect(percent(seen.nearer)).toBeGreaterThan(percent(zoom))
      expect([seen.farther, seen.again]).toEqual([zoom, zoom])
      if (pods > 20) expect(seen.zoomed).toEqual({ zoom: "100 %", isSame: true, overflows: true })
      else expect(seen.zoomed.zoom).toBe("125 %")
      expect(seen.faulty).toBe(pods)
      expect(boxes.filter(({ id }) => id.startsWith("attachment "))).toHaveLength(pods)
      const outside = boxes.flatMap(({ rect, texts }) =>
        texts.filter((one) => one.left < rect.left || one.right > rect.right || one.bottom > rect.bottom + 1),
      )
      expect(outside.map(({ text }) => text)).toEqual([])
      const overlapping = boxes.filter((one, at) => boxes.slice(at + 1).some((other) => overlaps(one.rect, other.rect)))
      expect(overlapping.map(({ id }) => id)).toEqual([])
      expect(contrast).toBeGreaterThan(4.5) // WCAG 2.2, 1.4.3
      expect(details).toContain('"type": "bridge"')
      expect(details).toContain("addresses: 10.85.0.")
      expect(details).toContain("missing-ports: ")
      expect(faded).toBe(pods - (pods > 20 ? 11 : 1)) // web-2, and web-20 to web-29
      backgrounds.push(background)
      const picture = profile.join(`${theme}.png`)
      await chromium(profile, `--screenshot=${picture}`, `file://${page}`)
      expect([...new Uint8Array(await Bun.file(picture).slice(1, 4).arrayBuffer())]).toEqual([0x50, 0x4e, 0x47])
      expect(Bun.file(picture).size).toBeGreaterThan(20_000) // an empty page of this size has 5,000
    }
    expect(new Set(backgrounds).size).toBe(2)
  })
}
