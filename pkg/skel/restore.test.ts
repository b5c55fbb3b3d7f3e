import { describe, expect, test } from "bun:test"
import { CniError } from "../types/mod.ts"
import { Recorder } from "./plugin.fixture.ts"
import { defineRestorable, type RestorablePlugin, type Restoring } from "./restorable.ts"
import { RESTORE_ARGUMENT } from "./restore.ts"
import { serve } from "./serve.ts"

const config = { cniVersion: "1.1.0", name: "lab", type: "recorder" }
const result = { interfaces: [], ips: [{ address: "10.1.0.2/24" }], routes: [], dns: {} }
const attachment = { containerId: "c1", ifName: "eth0", netns: "/run/netns/c1", args: "", config: 0, result }

function ask(plugin: RestorablePlugin<unknown>, request: object) {
  const stdin = () => new TextEncoder().encode(JSON.stringify({ configs: [config], ...request }))
  const { stdout, exitCode } = serve(plugin, { env: {}, args: () => [RESTORE_ARGUMENT], stdin, log: () => {} })
  return { exitCode, json: JSON.parse(stdout) }
}

function restoring(restore: (restoring: Restoring<unknown>) => void, rest: Partial<RestorablePlugin<unknown>> = {}) {
  return defineRestorable<unknown>({ ...new Recorder().plugin, restore, ...rest })
}

describe("a call of restore", () => {
  test("gives the plugin all attachments at once, with result and configuration, and answers what it tells", () => {
    const plugin = restoring(({ attachments, isDry, tell }) => {
      tell("lab", 'bridge "cni0"')
      for (const { owner, netns, result, tell } of attachments)
        tell(`${owner.network} ${netns} ${result.ips[0]?.address} ${isDry}`)
    })
    const both = [attachment, { ...attachment, containerId: "c2" }]
    const what = "lab /run/netns/c1 10.1.0.2/24 true"
    expect(ask(plugin, { dryRun: true, attachments: both })).toEqual({
      exitCode: 0,
      json: {
        restored: [
          { network: "lab", what: 'bridge "cni0"' },
          { network: "lab", containerId: "c1", ifName: "eth0", what },
          { network: "lab", containerId: "c2", ifName: "eth0", what },
        ],
        failed: [],
      },
    })
  })

  test("names an attachment that cannot be read, or that the plugin refuses, and the others go on", () => {
    const plugin = restoring(({ attachments }) => {
      for (const { owner, tell, refuse } of attachments)
        if (owner.containerId === "c2") refuse(new CniError(999, "Cannot restore it"))
        else tell("rules")
    })
    const { result: _, ...bare } = attachment
    const attachments = [
      { ...bare, containerId: "c1" },
      { ...attachment, containerId: "c2" },
      { ...attachment, containerId: "c3" },
    ]
    const { json } = ask(plugin, { dryRun: false, attachments })
    expect(json.restored).toEqual([{ network: "lab", containerId: "c3", ifName: "eth0", what: "rules" }])
    expect(json.failed).toMatchObject([
      { network: "lab", containerId: "c1", error: { code: 6 } },
      { network: "lab", containerId: "c2", error: { code: 999, msg: "Cannot restore it" } },
    ])
  })

  test("reads a configuration once for attachments that share it, and again with runtime values or arguments", () => {
    const read: unknown[] = []
    const plugin = restoring(() => {}, {
      config: (_network, { raw, args }) => void read.push([raw.runtimeConfig, args]),
    })
    const runtimeConfig = { mac: "0a:00:00:00:00:01" }
    const attachments = [{}, {}, { runtimeConfig }, { args: "A=b" }].map((more) => ({ ...attachment, ...more }))
    ask(plugin, { dryRun: true, attachments })
    expect(read).toEqual([
      [undefined, ""],
      [runtimeConfig, ""],
      [undefined, "A=b"],
    ])
  })

  test("looks into each container only where that is asked for, as CHECK would, and one that fails keeps none from its own", () => {
    const seen: unknown[] = []
    const restoreInside: RestorablePlugin<unknown>["restoreInside"] = (call, _config, isDry) => {
      const { verb, containerId, ifName, netns, network, raw } = call
      seen.push({ verb, containerId, ifName, netns, name: network.name, isDry })
      expect([network.prevResult, raw.prevResult]).toEqual([result, { cniVersion: "1.1.0", ips: result.ips }])
      if (containerId === "c1") throw new CniError(999, "Cannot restore it")
      call.answer({ interfaces: [], ips: [], routes: [], dns: {} })
      return containerId === "c2" ? "an address" : undefined
    }
    const plugin = restoring(() => {}, { restoreInside })
    const attachments = ["c1", "c2", "c3"].map((containerId) => ({ ...attachment, containerId }))
    expect(ask(plugin, { dryRun: true, attachments }).json).toEqual({ restored: [], failed: [] })
    expect(seen).toEqual([])
    expect(ask(plugin, { dryRun: true, containers: true, attachments }).json).toMatchObject({
      restored: [{ network: "lab", containerId: "c2", ifName: "eth0", what: "an address" }],
      failed: [{ network: "lab", containerId: "c1", error: { code: 999, msg: "Cannot restore it" } }],
    })
    const place = { verb: "CHECK", ifName: "eth0", netns: "/run/netns/c1", name: "lab", isDry: true }
    expect(seen).toEqual(["c1", "c2", "c3"].map((containerId) => ({ ...place, containerId })))
    const own = [{ ...attachment, netns: "/proc/self/ns/net" }]
    expect(ask(plugin, { dryRun: true, containers: true, attachments: own }).json.failed).toMatchObject([
      { error: { msg: 'Cannot restore the inside of "/proc/self/ns/net": it is the host\'s namespace' } },
    ])
  })

  test("tells the plugin when rules are only to move to iptables", () => {
    const received: boolean[] = []
    const plugin = restoring(({ toIptables }) => void received.push(toIptables))
    for (const toIptables of [true, undefined]) ask(plugin, { dryRun: false, toIptables, attachments: [attachment] })
    expect(received).toEqual([true, false])
  })

  test("is code 6 for what is no request, and answers nothing of a plugin that keeps nothing on the host", () => {
    expect(
      ask(
        restoring(() => {}),
        { attachments: "all" },
      ),
    ).toMatchObject({ exitCode: 1, json: { code: 6 } })
    const { plugin } = new Recorder()
    expect(ask(plugin as RestorablePlugin<unknown>, { dryRun: false, attachments: [attachment] })).toEqual({
      exitCode: 0,
      json: { restored: [], failed: [] },
    })
  })
})
