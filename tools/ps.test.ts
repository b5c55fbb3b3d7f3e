import { describe, expect, test } from "bun:test"
import { attachmentOf } from "./doctor/testing/inputs.ts"
import { attachmentAsJson, psTable } from "./ps.ts"

const link = {
  index: 4,
  name: "veth1",
  kind: "veth",
  mac: "",
  mtu: 1500,
  isUp: true,
  state: "up",
  addresses: [],
}
const whole = attachmentOf({
  pod: { namespace: "shop", name: "web" },
  netns: "/run/netns/x",
  isAlive: true,
  link,
  addedMs: 1000,
  addresses: ["10.85.0.2/24", "fd00::2/64"],
  ports: ["8080→80/tcp", "53→53/udp"],
  sources: ["cache", "lease"],
  rules: ["ip nat A", "ip nat B", "ip nat A"].map((place) => ({ place, backend: "nftables", owner: "" }) as const),
})
const orphan = attachmentOf({
  containerId: "c2",
  ifName: "",
  isAlive: false,
  pod: { namespace: "", name: "db" },
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
      `NETWORK  NAMESPACE  CONTAINER  INTERFACE  ADDRESS                  PORTS                   HOST   NETNS    AGE  NOTES
pods     shop       web        eth0       10.85.0.2/24,fd00::2/64  8080→80/tcp, 53→53/udp  veth1  alive    1m
pods     -          db         -          -                        -                       -      gone     -    orphan: lease, rules without namespace; link without cache entry; lease of an earlier boot
pods     -          c3         eth0       10.85.0.9                -                       -      unknown  -
pods     -          c4         eth0       -                        -                       -      ?        -

4 attachments, 1 orphaned
`,
    )
  })

  test("leaves out columns in which nothing stands", () => {
    expect(psTable([attachmentOf()], 0, {})).toBe(
      `NETWORK  CONTAINER  INTERFACE  NETNS
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
    ports: [
      { hostPort: 8080, containerPort: 80, protocol: "tcp" },
      { hostPort: 53, containerPort: 53, protocol: "udp" },
    ],
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

describe("at 80 columns", () => {
  const pods = ["web-7d9f8b6c5d-x2x4z", "db-0"].map((name) =>
    attachmentOf({
      network: "production",
      pod: { namespace: "shop-frontend", name },
      netns: "/run/netns/x",
      isAlive: true,
      link,
      addresses: ["10.244.113.127/24", "fd00:10:244:1::7f/64"],
      ports: ["8080→80/tcp"],
      addedMs: 1000,
    }),
  )

  test("name and addresses are whole, and the least useful columns are left out", () => {
    const [head = "", ...lines] = psTable(pods, 61_000, { columns: 80 }).split("\n")
    expect(head).toBe("NAMESPACE      CONTAINER             ADDRESS")
    expect(lines[0]).toBe("shop-frontend  web-7d9f8b6c5d-x2x4z  10.244.113.127/24,fd00:10:244:1::7f/64")
    expect(psTable(pods, 61_000, { columns: 110 })).toContain("INTERFACE  ADDRESS")
  })

  test("an ID of a container is short; on a wide screen there is all of it, and every column", () => {
    const containerId = "0123456789abcdef".repeat(4)
    const one = attachmentOf({ containerId })
    expect(psTable([one], 0, { columns: 80 })).toContain("pods     0123456789ab  eth0")
    const [head = "", row = ""] = psTable([one], 0, { isWide: true }).split("\n")
    expect(head.split(/ +/)).toHaveLength(11)
    expect(row.split(containerId)).toHaveLength(3)
  })
})

test("without heads the table is rows alone, and nothing at all where there are none", () => {
  expect(psTable([attachmentOf()], 0, { hasHeads: false })).toBe("pods  c1  eth0  ?\n")
  expect(psTable([], 0, { hasHeads: false })).toBe("")
})
