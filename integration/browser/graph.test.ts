import { expect, test } from "bun:test"
import { NodeLab } from "../cni/node-lab.ts"
import { mustRun, programEnv, TemporaryDirectory } from "../lab/mod.ts"

/** A script for the page that measures everything that the browser has drawn. */
const measure = `
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
const faulty = document.querySelectorAll("svg g.member.faulty, svg g.member.doubtful").length
const details = document.querySelector("svg g.member title").textContent
const answer = { faulty, boxes, contrast: Math.min(...contrasts), details, background: getComputedStyle(document.querySelector("svg .bg")).fill }
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
  faulty: number
  background: string
}

/** Runs headless Chromium without a network. */
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

async function measured(svg: string, page: string, profile: TemporaryDirectory): Promise<Measured> {
  await Bun.write(page, `<!doctype html><meta charset="utf-8"><body>${svg}<script>{${measure}}</script></body>`)
  const dom = await chromium(profile, "--dump-dom", `file://${page}`)
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
    // A fault for doctor: delete the rules of the published ports.
    await lab.host.exec("nft", ["delete", "table", "ip", "cni_hostports"])
    const backgrounds: string[] = []
    for (const theme of ["light", "dark"]) {
      const file = profile.join(`${theme}.svg`)
      expect(await lab.cni(["graph", "--theme", theme, "--write", file])).toMatchObject({ exitCode: 0, stderr: "" })
      const svg = await Bun.file(file).text()
      expect(svg.replaceAll('xmlns="http://www.w3.org/2000/svg"', "")).not.toMatch(/https?:|src=|@import|url\(/)
      const { boxes, contrast, details, faulty, background } = await measured(svg, `${file}.html`, profile)
      expect(faulty).toBe(pods)
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
      backgrounds.push(background)
      const picture = profile.join(`${theme}.png`)
      await chromium(profile, `--screenshot=${picture}`, `file://${file}`)
      expect([...new Uint8Array(await Bun.file(picture).slice(1, 4).arrayBuffer())]).toEqual([0x50, 0x4e, 0x47])
      expect(Bun.file(picture).size).toBeGreaterThan(20_000) // a picture of an empty page has 5,000 bytes
    }
    expect(new Set(backgrounds).size).toBe(2)
  })
}
