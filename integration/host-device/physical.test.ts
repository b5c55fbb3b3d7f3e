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
  waitFor,
} from "../lab/mod.ts"
import { describe, upstream } from "./device.ts"

/** The MAC address of the card, see `spare_nic`. */
const mac = "52:54:00:0d:e7:1c"

/** The machine's own namespace, to which the kernel returns a card when it deletes the card's namespace. */
const machine = {
  async json<T>(file: string, args: readonly string[]): Promise<T> {
    return JSON.parse((await mustRun([file, ...args])).stdout) as T
  },
  async names(): Promise<string[]> {
    return (await this.json<{ ifname: string }[]>("ip", ["-j", "link"])).map(({ ifname }) => ifname)
  },
}

/** Runs the plugin in the machine's own namespace. */
async function run(
  verb: PluginCall["verb"],
  pod: ContainerNamespace,
  keys: object,
  bin = `${builtPlugins}/host-device`,
  netns = verb === "DEL" ? "" : pod.path,
) {
  const config = { cniVersion: newest, name: "lab", type: "host-device", ...keys }
  const env = pluginEnv({ bin, verb, containerId: pod.name, netns, ifName: "eth0" })
  return runProgram([bin], { env, input: JSON.stringify(config) })
}

/**
 * Configures the card with a different name than in the container, because the kernel would keep an equal name. Returns
 * the card's state.
 */
async function setUpCard(name: string): Promise<{ pciBusID: string; before: object }> {
  const links = await machine.json<{ ifname: string; address: string }[]>("ip", ["-j", "link"])
  const found = links.find(({ address }) => address === mac)?.ifname ?? ""
  if (found !== name) {
    await mustRun(["ip", "link", "set", found, "down"])
    await mustRun(["ip", "link", "set", found, "name", name])
  }
  const bus = await mustRun(["readlink", "-f", `/sys/class/net/${name}/device/..`])
  await mustRun(["ip", "link", "set", name, "mtu", "1400", "alias", "uplink of the lab", "up"])
  return { pciBusID: bus.stdout.trim().replace(/.*\//, ""), before: await describe(machine, name) }
}

/** Gives names and an alias to the card, as a container may do. */
const forge = (pod: ContainerNamespace) =>
  pod.exec("sh", [
    "-c",
    [
      `ip link property del dev eth0 altname lab:${pod.name}:eth0`,
      "for name in docker0 other:x:eth0; do ip link property add dev eth0 altname $name; done",
      "ip link set eth0 down; ip link set eth0 alias lan/x/eth0 mtu 900 address 0a:00:00:00:00:77 name cni0",
    ].join("\n"),
  ])

const gc = (pod: ContainerNamespace, keys: object) => run("GC", pod, { ...keys, "cni.dev/valid-attachments": [] })

testWith(
  ["spare_nic"],
  "a network card whose names the container has changed comes back as it was, also from a namespace in the container [S59]",
  async () => {
    await using host = await HostNamespace.create()
    const name = "ens5"
    const { before } = await setUpCard(name)
    const ways: ((pod: ContainerNamespace, keys: object) => Promise<unknown>)[] = [
      (pod, keys) => run("DEL", pod, keys, undefined, pod.path),
      gc,
      async (pod, keys) => {
        // When the inner namespace ends, the kernel returns the card to the machine with the names from the container.
        const isEntered = '[ "$(readlink /proc/$!/ns/net)" != "$(readlink /proc/self/ns/net)" ]'
        const moveAndEnd = `until ${isEntered}; do :; done; ip link set cni0 netns $! && kill $!; wait`
        await pod.exec("sh", ["-c", `unshare -n sleep 1000 & ${moveAndEnd}; true`])
        await waitFor(async () => (await machine.names()).includes("cni0"), "the kernel to give the card back")
        return gc(pod, keys)
      },
    ]
    for (const giveBack of ways) {
      const pod = await host.addContainer()
      expect(await run("ADD", pod, { device: name })).toMatchObject({ exitCode: 0 })
      await forge(pod)
      expect(await giveBack(pod, { device: name })).toMatchObject({ exitCode: 0 })
      expect(await describe(machine, name)).toEqual(before)
      expect(await machine.names()).not.toContain("cni0")
    }
  },
)

testWith(
  ["spare_nic"],
  "a network card without a record comes back down, with no name, alias or router of the container's choice [S92]",
  async () => {
    await using host = await HostNamespace.create()
    const { pciBusID } = await setUpCard("ens5")
    for (const [keys, expected] of [
      [{ device: "ens5" }, "ens5"],
      [{ pciBusID }, "dev0"],
    ] as const) {
      const pod = await host.addContainer()
      expect(await run("ADD", pod, { device: "ens5" })).toMatchObject({ exitCode: 0 })
      await mustRun(["sh", "-c", "rm /run/cni/host-device/*"])
      await pod.exec("sh", ["-c", "ip link set eth0 alias cni0; ip link property add dev eth0 altname docker0"])
      expect(await run("DEL", pod, keys, undefined, pod.path)).toMatchObject({ exitCode: 0 })
      const back = { ifname: expected, address: mac, ifalias: "", altnames: [], up: false }
      expect(await describe(machine, expected)).toMatchObject(back)
      const { stdout } = await mustRun(["cat", `/proc/sys/net/ipv6/conf/${expected}/accept_ra`])
      expect(stdout.trim()).toBe("0")
      await setUpCard("ens5")
    }
  },
)

testWith(
  ["spare_nic"],
  "a network card comes back as it was: on GC, and on DEL without a namespace or after it no longer exists",
  async () => {
    await using host = await HostNamespace.create()
    const name = "ens5"
    const { pciBusID, before } = await setUpCard(name)

    const ways: [object, (pod: ContainerNamespace, keys: object) => Promise<unknown>][] = [
      [{ hwaddr: mac }, gc],
      [{ device: name }, (pod, keys) => run("DEL", pod, keys)],
      [
        { pciBusID },
        async (pod, keys) => {
          await host.removeContainer(pod)
          return run("DEL", pod, keys) // waits for the kernel to return it
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
