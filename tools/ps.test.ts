import { describe, expect, test } from "bun:test"
import { cni } from "../cmd/cni/main.ts"
import { Lab } from "../pkg/libcni/testing/lab.ts"
import { attachmentOf } from "./doctor/testing/patients.ts"
import { attachmentAsJson, pause, psTable } from "./ps.ts"
import { recordingTerminal } from "./testing.ts"

const link = {
  ...{ index: 4, name: "veth1", kind: "veth", mac: "", mtu: 1500, isUp: true, state: "up" },
  addresses: [],
}
const whole = attachmentOf({
  ...{ pod: { namespace: "shop", name: "web" }, netns: "/run/netns/x", isAlive: true, link, addedMs: 1000 },
  ...{ addresses: ["10.85.0.2/24", "fd00::2/64"], ports: ["8080→80/tcp", "53→53/udp"], sources: ["cache", "lease"] },
  rules: ["ip nat A", "ip nat B", "ip nat A"].map((place) => ({ place, backend: "nftables", owner: "" }) as const),
})
const orphan = attachmentOf({
  ...{ containerId: "c2", ifName: "", isAlive: false, pod: { namespace: "", name: "db" } },
  orphan: [
    "lease without namespace",
    "link without cache entry",
    "rules without namespace",
    "lease of an earlier boot",
  ],
})

describe("the table of attachments", () => {
  test("has a row for each, and says what does not fit", () => {
    const inside = attachmentOf({
      containerId: "c3",
      netns: "/x",
      link: { ...link, nsid: 2 },
      addresses: ["10.85.0.9"],
    })
    expect(psTable([whole, orphan, inside, attachmentOf({ containerId: "c4" })], 61_000, {})).toBe(
      `NETWORK  CONTAINER  INTERFACE  ADDRESS                  PORTS                   HOST   NAMESPACE  AGE  NOTES
pods     shop/web   eth0       10.85.0.2/24,fd00::2/64  8080→80/tcp, 53→53/udp  veth1  alive      1m
pods     db         -          -                        -                       -      gone       -    orphan: lease, rules without namespace; link without cache entry; lease of an earlier boot
pods     c3         eth0       10.85.0.9                -                       -      unknown    -
pods     c4         eth0       -                        -                       -      ?          -

4 attachments, 1 orphaned
`,
    )
  })

  test("leaves out columns in which nothing stands", () => {
    expect(psTable([attachmentOf()], 0, {})).toBe(
      `NETWORK  CONTAINER  INTERFACE  NAMESPACE
pods     c1         eth0       ?

1 attachment, 0 orphaned
`,
    )
    expect(psTable([], 0, {})).toBe("No attachments\n")
  })

  test("has colours where the terminal has", () => {
    const table = psTable([whole, orphan], 61_000, { colour: true })
    expect(table).toContain("\x1b[32malive\x1b[0m")
    expect(table).toContain("\x1b[31;1mgone\x1b[0m")
    expect(table).toContain("\x1b[33morphan: lease, rules without namespace;")
    expect(table).toEndWith("\n\n\x1b[33m2 attachments, 1 orphaned\x1b[0m\n")
    expect(psTable([whole], 61_000, { colour: true })).toEndWith("\n\n1 attachment, 0 orphaned\n")
  })
})

test("for programs it is JSON with what is known, each rule's place once", () => {
  expect(attachmentAsJson(whole)).toStrictEqual({
    network: "pods",
    containerId: "c1",
    ifName: "eth0",
    pod: { namespace: "shop", name: "web" },
    netns: "/run/netns/x",
    alive: true,
    addresses: ["10.85.0.2/24", "fd00::2/64"],
    ports: ["8080→80/tcp", "53→53/udp"],
    hostInterface: "veth1",
    rules: ["ip nat A", "ip nat B"],
    added: "1970-01-01T00:00:01.000Z",
    sources: ["cache", "lease"],
    orphan: [],
  })
  const none = { network: "pods", containerId: "c1", ifName: "eth0", addresses: [], ports: [], rules: [], sources: [] }
  expect(attachmentAsJson(attachmentOf({ link: { ...link, nsid: 0 }, orphan: ["x"] }))).toStrictEqual({
    ...none,
    orphan: ["x"],
  })
})

test("a pause ends early when it is interrupted", async () => {
  const already = AbortSignal.abort()
  await pause(1e6, already)
  const interrupted = new AbortController()
  const paused = pause(1e6, interrupted.signal)
  interrupted.abort()
  await paused
  await pause(1, new AbortController().signal)
})

test.each([
  [false, /^\[\]\n$/],
  // biome-ignore lint/suspicious/noControlCharactersInRegex: home, and clear from there, ECMA-48 8.3.57 and 8.3.39
  [true, /^\x1b\[H\x1b\[J\d{4}-\d\d-\d\dT[\d:.]+Z\n\nNo attachments\n$/],
])(
  "--watch shows it again until it is interrupted; for people %p on a screen of its own",
  async (interactive, shown) => {
    using lab = new Lab()
    const interrupted = new AbortController()
    const said: string[] = []
    const stdout = (text: string) => {
      said.push(text)
      interrupted.abort()
    }
    const terminal = { ...recordingTerminal({}, interactive), stdout, signal: interrupted.signal }
    const places = ["--conf-dir", lab.confDir, "--bin-dir", lab.binDir, "--cache-dir", lab.cacheDir]
    expect(await cni(["ps", "no-such-network", "--watch", ...places], terminal)).toBe(0)
    expect(said).toHaveLength(1)
    expect(said[0]).toMatch(shown)
  },
)
