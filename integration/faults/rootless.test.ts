import { expect } from "bun:test"
import { readFile } from "node:fs/promises"
import {
  builtPlugins,
  gatewayBridge,
  newest,
  pluginRow,
  runProgram,
  TemporaryDirectory,
  testPlugin,
} from "../lab/mod.ts"

/** The plugins under test. The host is a user namespace with its own network, mounts and files. */
const plugins = ["bridge", "ptp", "macvlan", "tap", "loopback", "portmap", "firewall", "bandwidth", "sbr", "tuning"]

/** A command that prints the state of the host that must not change. */
const look = "ip -o link | wc -l; nft list ruleset | grep -c comment; find /var/lib/cni /run/cni -name '10.22.*'"

/**
 * Returns a script that adds, checks and deletes one attachment of a plugin, and writes each output to a file. For a
 * chained plugin the script first runs ADD of bridge. The configuration without prevResult lacks its closing brace, so
 * that the shell can add prevResult.
 */
function scriptOf(plugin: string, directory: string, keys: object): string {
  const common = { cniVersion: newest, name: "lab" }
  const isChained = pluginRow(plugin).role === "chained"
  const config = JSON.stringify({
    ...common,
    type: plugin,
    ...pluginRow(plugin).keys({ network: "lab", port: 8080 }),
    ...keys,
  })
  const bridge = JSON.stringify({ ...common, type: "bridge", ...gatewayBridge("lab") })
  const ifName = plugin === "loopback" ? "lo" : "eth0"
  return `
    mount --make-rprivate /
    for place in /var/lib/cni /run; do mount -t tmpfs none $place; done
    mkdir -p /run/cni /run/netns
    ip link set lo up
    ip link add uplink up type veth peer name card
    ip link add br-lab up type bridge
    export CNI_CONTAINERID=c1 CNI_IFNAME=${ifName} CNI_PATH=${builtPlugins}
    call() {
      file=${directory}/$1-$2
      printf %s "$3" | CNI_COMMAND=$1 CNI_NETNS=/run/netns/$4 ${builtPlugins}/$2 > $file 2> $file.log
      echo $? > $file.code
    }
    with() { printf '%s,"prevResult":%s}' "\${1%\\}}" "$(cat $2)"; }
    config='${config}'
    ip netns add pod
    ${isChained ? `call ADD bridge '${bridge}' pod; config=$(with "$config" ${directory}/ADD-bridge)` : ""}
    (${look}) > ${directory}/before
    call STATUS ${plugin} "$config" pod
    call ADD ${plugin} "$config" pod
    call CHECK ${plugin} "$(with "$config" ${directory}/ADD-${plugin})" pod
    call GC ${plugin} "\${config%\\}},\\"cni.dev/valid-attachments\\":[{\\"containerID\\":\\"c1\\",\\"ifname\\":\\"${ifName}\\"}]}" pod
    call DEL ${plugin} "$config" pod
    (${look}) > ${directory}/after
  `
}

/** Runs the script in a user namespace with a single user. */
async function live(plugin: string, directory: TemporaryDirectory, keys: object) {
  const script = scriptOf(plugin, directory.path, keys)
  const { stderr } = await runProgram(["unshare", "-Ur", "-n", "-m", "sh", "-c", script])
  return { stderr, read: (name: string) => readFile(directory.join(name), "utf8") }
}

for (const plugin of plugins) {
  const title = `${plugin}: a host that is a user namespace, as rootless containers have, is one like any other`
  testPlugin(plugin, title, async () => {
    await using directory = await TemporaryDirectory.create()
    const { read, stderr } = await live(plugin, directory, plugin === "tap" ? { owner: 0 } : {})
    for (const verb of ["STATUS", "ADD", "CHECK", "GC", "DEL"]) {
      const answer = (await read(`${verb}-${plugin}`)) + (await read(`${verb}-${plugin}.log`))
      expect({ verb, answer, code: await read(`${verb}-${plugin}.code`), stderr }).toMatchObject({ verb, code: "0\n" })
    }
    expect(await read("after")).toBe(await read("before"))
  })
}

testPlugin("tap", "tap: an owner that the user namespace does not have is named, and nothing is left", async () => {
  await using directory = await TemporaryDirectory.create()
  const { read } = await live("tap", directory, { owner: 1000 })
  expect(JSON.parse(await read("ADD-tap"))).toMatchObject({
    code: 7,
    msg: `Cannot use "owner" 1000: the plugin's user namespace does not have it`,
  })
  expect(await read("after")).toBe(await read("before"))
})
