import { expect } from "bun:test"
import {
  builtPlugins,
  type ContainerNamespace,
  HostNamespace,
  mustRun,
  newest,
  type PluginCall,
  pluginEnv,
  runProgram,
  testWith,
} from "../lab/mod.ts"
import { describe, upstream } from "./device.ts"

/** The card's, see `spare_nic`. */
const mac = "52:54:00:0d:e7:1c"

/** The machine's own namespace, to which the kernel gives a card back when its namespace goes. */
const machine = {
  async json<T>(file: string, args: readonly string[]): Promise<T> {
    return JSON.parse((await mustRun([file, ...args])).stdout) as T
  },
}

/** Runs the plugin in the machine's own namespace. */
async function run(
  verb: PluginCall["verb"],
  pod: ContainerNamespace,
  keys: object,
  bin = `${builtPlugins}/host-device`,
) {
  const config = { cniVersion: newest, name: "lab", type: "host-device", ...keys }
  const env = pluginEnv({ bin, verb, containerId: pod.name, netns: verb === "DEL" ? "" : pod.path, ifName: "eth0" })
  return runProgram([bin], { env, input: JSON.stringify(config) })
}

testWith(
  ["spare_nic"],
  "a network card comes back as it was: on GC, and on DEL without a namespace or after it has gone",
  async () => {
    await using host = await HostNamespace.create()
    const links = await machine.json<{ ifname: string; address: string }[]>("ip", ["-j", "link"])
    const found = links.find(({ address }) => address === mac)?.ifname ?? ""
    const name = "ens5" // not the container's, which the kernel would keep
    await mustRun(["ip", "link", "set", found, "name", name])
    const bus = await mustRun(["readlink", "-f", `/sys/class/net/${name}/device/..`])
    const pciBusID = bus.stdout.trim().replace(/.*\//, "")
    await mustRun(["ip", "link", "set", name, "mtu", "1400", "alias", "uplink of the lab", "up"])
    const before = await describe(machine, name)

    const ways: [object, (pod: ContainerNamespace, keys: object) => Promise<unknown>][] = [
      [{ hwaddr: mac }, (pod, keys) => run("GC", pod, { ...keys, "cni.dev/valid-attachments": [] })],
      [{ device: name }, (pod, keys) => run("DEL", pod, keys)],
      [
        { pciBusID },
        async (pod, keys) => {
          await host.removeContainer(pod)
          return run("DEL", pod, keys) // it may not be back yet
        },
      ],
    ]
    for (const [keys, giveBack] of ways) {
      const pod = await host.addContainer()
      expect(await run("ADD", pod, keys)).toMatchObject({ exitCode: 0 })
      expect(await describe(pod, "eth0")).toMatchObject({ address: mac, up: true })
      const { stdout } = await run("ADD", await host.addContainer(), keys)
      expect(JSON.parse(stdout).msg).toEndWith(`it is "eth0" of lab/${pod.name}/eth0`)
      await pod.exec("ip", ["link", "set", "eth0", "down"])
      await pod.exec("ip", ["link", "set", "eth0", "name", "other", "mtu", "900", "address", "0a:00:00:00:00:77"])
      expect(await giveBack(pod, keys)).toMatchObject({ exitCode: 0 })
      expect(await describe(machine, name)).toEqual(before)
    }

    const pod = await host.addContainer()
    const keys = { cniVersion: "1.0.0", device: name }
    expect(await run("ADD", pod, keys, upstream)).toMatchObject({ exitCode: 0 })
    await host.removeContainer(pod)
    expect(await run("DEL", pod, keys)).toMatchObject({ exitCode: 0 })
    expect(await describe(machine, name)).toMatchObject({ ifname: name, address: mac, mtu: 1400, ifalias: "" })
  },
)
