/** Runs the same cases for each backend of each feature with rules; `nft` and `iptables-save` show the results. */
import { afterAll, beforeAll, describe, expect } from "bun:test"
import { join } from "node:path"
import { chooseIptables, HostNamespace, type IptablesKind, programEnv, testWith } from "../../lab/mod.ts"
import { OwnedTable } from "../owned-table.ts"
import type { FeatureName, Outcome, Request, Step } from "./rule-features.fixture.ts"

let host: HostNamespace
let features: Bun.Subprocess<"pipe", "pipe", "inherit">
let outcomes: AsyncIterator<Uint8Array>
beforeAll(async () => {
  host = await HostNamespace.create("rules")
  const command = host.commandLine([process.execPath, join(import.meta.dir, "rule-features.fixture.ts")])
  features = Bun.spawn(command, { stdin: "pipe", stdout: "pipe", stderr: "inherit", env: programEnv })
  outcomes = features.stdout[Symbol.asyncIterator]()
})
afterAll(async () => {
  features.stdin.end()
  await features.exited
  await host[Symbol.asyncDispose]()
})

/** Runs `steps` of a feature. If `hasNftables` is false, the feature acts as on a kernel without nf_tables. */
async function run(name: FeatureName, steps: readonly Step[], hasNftables = true): Promise<Outcome[]> {
  const request: Request = { name, steps, hasNftables }
  features.stdin.write(`${JSON.stringify(request)}\n`)
  features.stdin.flush()
  const decoder = new TextDecoder()
  let line = ""
  while (!line.endsWith("\n")) {
    const { value, done } = await outcomes.next()
    if (done) throw new Error("The features' process has ended")
    line += decoder.decode(value, { stream: true })
  }
  return JSON.parse(line)
}

async function clear(kind: IptablesKind): Promise<void> {
  await chooseIptables(host, kind)
  await host.exec("nft", ["flush", "ruleset"])
}

/** Returns the owners named in `iptables-save`, or in nf_tables without the tables of iptables. */
async function owners(place: "nftables" | "iptables"): Promise<string[]> {
  const text =
    place === "iptables"
      ? (await host.exec("iptables-save", [])).stdout
      : (await host.exec("nft", ["list", "ruleset"])).stdout.replace(/^table ip6? (nat|filter) \{$.*?^\}$/gms, "")
  return [...new Set(text.match(/lab\/c\d\/eth0/g))].sort()
}

const ruleset = async () => (await host.exec("nft", ["-s", "list", "ruleset"])).stdout.replace(/ # handle \d+/g, "")

interface Row {
  readonly name: FeatureName
  readonly backend: "nftables" | "iptables"
  readonly table: string
  /** Parts of messages: the request of ADD for attachment 1, the request of STATUS, the requirement on the kernel. */
  readonly does: string
  readonly serves: string
  readonly needs: string
  /** The configuration key that chooses the backend. */
  readonly key?: string
  /** The object that CHECK reports as missing. */
  readonly finds: string
  /** The error of ADD with backend iptables if the iptables programs are missing. */
  readonly without?: string
}

const programs = (variant: string) =>
  `Cannot find the programs "${variant}-save" and "${variant}-restore" in /usr/sbin, /sbin`
const featureRows: readonly Omit<Row, "backend">[] = [
  {
    name: "masquerade",
    table: "ip cni_masquerade",
    key: "ipMasqBackend",
    finds: "the masquerade",
    does: "masquerade 10.1.0.1/16",
    serves: "masquerade",
    needs: "the kernel needs nf_tables with NAT",
    without: "Cannot masquerade 10.1.0.1/16 by iptables",
  },
  {
    name: "port mappings",
    table: "ip cni_hostports",
    key: "backend",
    finds: "a port mapping",
    does: "map ports",
    serves: "map ports",
    needs: "the kernel needs nf_tables with NAT, the fib expression, and conntrack labels",
  },
  {
    name: "firewall rules",
    table: "inet cni_firewall",
    key: "backend",
    finds: "the firewall rules",
    does: "filter",
    serves: "filter",
    needs: "the kernel needs nf_tables with connection tracking",
  },
  {
    name: "spoof check",
    table: "bridge cni_spoofcheck",
    finds: "the spoof check",
    does: 'guard port "veth1" against other MACs than 0a:00:00:00:00:01',
    serves: "check the source MACs of containers",
    needs: "the kernel needs nf_tables for bridges (CONFIG_NF_TABLES_BRIDGE)",
  },
]
const rows: Row[] = featureRows.flatMap((row): Row[] => [
  { ...row, backend: "nftables" },
  ...(row.key ? [{ ...row, backend: "iptables" as const }] : []),
])
const programMissing = 'the program "iptables-restore" is missing (Debian\'s package is called "iptables")'
const [first, second] = ["lab/c1/eth0", "lab/c2/eth0"]

for (const { name, backend, finds } of rows) {
  const isIptables = backend === "iptables"
  const needed = isIptables ? (["nf_tables", "iptables"] as const) : (["nf_tables", "nf_tables_bridge"] as const)
  describe(`${name} by ${backend}`, () => {
    testWith([...needed], "is added, twice without a change, checked, and removed, twice", async () => {
      await clear("nf_tables")
      expect(await run(name, [["add", 1, backend]])).toEqual(["done"])
      expect(await owners(backend)).toEqual([first])
      expect(await owners(isIptables ? "nftables" : "iptables")).toEqual([])
      const once = await ruleset()
      expect(
        await run(name, [
          ["add", 1, backend],
          ["check", 1, backend],
          ["check", 1],
        ]),
      ).toEqual(Array(3).fill("done"))
      expect(await ruleset()).toBe(once)
      expect(
        await run(name, [
          ["remove", 1],
          ["remove", 1],
        ]),
      ).toEqual(["done", "done"])
      expect([...(await owners("nftables")), ...(await owners("iptables"))]).toEqual([])
    })

    testWith([...needed], "leaves nothing of an ADD that is undone, and what was there before", async () => {
      await clear("nf_tables")
      expect(
        await run(name, [
          ["add", 2, backend],
          ["undone", 1, backend],
        ]),
      ).toEqual(["done", "done"])
      expect(await owners(backend)).toEqual([second])
    })

    testWith([...needed], "is found missing by CHECK in the words of this backend, with code 999", async () => {
      await clear("nf_tables")
      const [added, missing] = await run(name, [
        ["add", 2, backend],
        ["check", 1, backend],
      ])
      const by = isIptables ? " by iptables" : ""
      const message = expect.stringContaining(`Cannot find ${finds} of lab/c1/eth0${by}: expected `)
      expect(added).toBe("done")
      expect(missing).toMatchObject({ code: 999, message })
    })

    testWith([...needed], "is collected by GC, but for what is valid", async () => {
      await clear("nf_tables")
      const added = (["add", "add"] as const).map((verb, at): Step => [verb, at + 1, backend])
      expect(await run(name, [...added, ["gc", 2], ["check", 2, backend]])).toEqual(Array(4).fill("done"))
      expect(await owners(backend)).toEqual([second])
      expect(await run(name, [["gc"]])).toEqual(["done"])
      expect(await owners(backend)).toEqual([])
    })
  })
}

for (const { name, table, does, serves, needs, key, without } of featureRows as readonly Row[]) {
  describe(name, () => {
    testWith(["nf_tables"], "DEL and GC with nothing there succeed and change nothing", async () => {
      await clear("nf_tables")
      const before = await ruleset()
      expect(await run(name, [["remove", 1], ["gc"], ["gc", 1]])).toEqual(["done", "done", "done"])
      expect(await run(name, [["remove", 1], ["gc"], ["gc", 1]], false)).toEqual(["done", "done", "done"])
      expect(await ruleset()).toBe(before)
    })

    testWith(
      ["nf_tables", "nf_tables_bridge"],
      "DEL and GC keep the error of a backend that fails, and go on with the other",
      async () => {
        for (const [step, what] of [
          [["remove", 1], `the ${name} of lab/c1/eth0`],
          [["gc"], `the stale ${name} of network "lab"`],
        ] as const) {
          await clear("nf_tables")
          const added: Step[] = [["add", 1, "nftables"], ...(key ? [["add", 1, "iptables"] as const] : [])]
          expect(await run(name, added)).toEqual(added.map(() => "done"))
          await using _ = await OwnedTable.take(host, table)
          expect(await run(name, [step])).toEqual([
            { code: 999, message: `Cannot remove ${what} by nftables`, details: expect.stringContaining("EPERM") },
          ])
          expect(await owners("nftables")).toEqual([first])
          expect(await owners("iptables")).toEqual([])
        }
      },
    )

    testWith(["nf_tables"], "a kernel without nf_tables is told so, or has the rules by iptables", async () => {
      await clear("legacy")
      const why = { code: 999, message: `Cannot ${does} by nftables: the kernel has no nf_tables` }
      const remedy = `load the module "nf_tables"${key ? `, or set "${key}" to "iptables"` : ""}`
      const [add, status] = await run(
        name,
        [
          ["add", 1, "nftables"],
          ["usable", "nftables"],
        ],
        false,
      )
      expect(add).toEqual({ ...why, details: remedy })
      expect(status).toEqual({ code: 50, message: `Cannot ${serves} by nftables`, details: needs })
      if (!key) return
      expect(await run(name, [["usable"], ["add", 1], ["check", 1], ["remove", 1]], false)).toEqual(
        Array(4).fill("done"),
      )
      await clear("none")
      const [neither, unusable] = await run(name, [["add", 1], ["usable"]], false)
      expect(neither).toMatchObject({
        code: 999,
        message: without ?? expect.stringContaining(programs("iptables-legacy")),
      })
      expect((neither as { details: string }).details).toEndWith(`; nftables failed first: ${why.message}; ${remedy}`)
      expect(unusable).toEqual({
        code: 50,
        message: `Cannot ${serves} by nftables or iptables`,
        details: `${needs}; ${programMissing}`,
      })
    })

    if (key)
      testWith(["nf_tables"], "iptables that is asked for and missing is an error, and nothing is left", async () => {
        await clear("none")
        const before = await ruleset()
        const [add, check, status] = await run(name, [
          ["add", 1, "iptables"],
          ["check", 1, "iptables"],
          ["usable", "iptables"],
        ])
        expect(add).toMatchObject({ code: 999, message: without ?? expect.stringContaining(programs("iptables")) })
        expect(JSON.stringify(add)).toContain("Debian's package is called")
        expect(check).toMatchObject({ code: 999 })
        expect(status).toEqual({ code: 50, message: `Cannot ${serves} by iptables`, details: programMissing })
        expect(await ruleset()).toBe(before)
      })
  })
}
