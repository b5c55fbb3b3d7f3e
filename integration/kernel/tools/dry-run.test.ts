/** What `cni dry-run` shows of what a plugin would make, from its sources, on a host that is used already. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { chmod, mkdir, readdir, writeFile } from "node:fs/promises"
import { expectUnchanged, takeSnapshot, waitForLocalRoutes } from "../../lab/mod.ts"
import { NodeScene } from "./node-scene.fixture.ts"

let node: NodeScene
beforeAll(async () => {
  node = await NodeScene.create()
  const { host, scratch } = node
  const lines = [
    "link add up0 type veth peer name up1",
    "link set up0 up mtu 1400 address 02:00:00:00:00:aa",
    "link set up1 up",
    "address add 192.0.2.2/24 dev up0",
    "address add 2001:db8::2/64 dev up0 nodad",
    "route add default via 192.0.2.1 metric 7",
    "route add 203.0.113.0/24 via 192.0.2.9",
    "link add eth7 type veth peer name eth8",
    "link add br1 type bridge",
  ]
  await host.exec("ip", ["-batch", "-"], { input: `${lines.join("\n")}\n` })
  await waitForLocalRoutes(host, ["2001:db8::2"])
  await mkdir(scratch.join("data"))
})
afterAll(() => node[Symbol.asyncDispose]())

/** Writes the network "dry" with one plugin, whose ADD is a script; returns what a dry run of it ends with. */
async function dryRun(add: string, args: string[] = [], keys: object = {}) {
  const { scratch, host, tool } = node
  const script = `#!/bin/sh\n[ "$CNI_COMMAND" = ADD ] || exit 0\nexec 3>&1 >&2\n${add}\n`
  await writeFile(scratch.join("bin/making"), script)
  await chmod(scratch.join("bin/making"), 0o755)
  const plugins = [{ type: "making", ...keys }]
  await writeFile(scratch.join("net.d/30-dry.conflist"), JSON.stringify({ cniVersion: "1.1.0", name: "dry", plugins }))
  const before = await takeSnapshot(host)
  await mkdir(scratch.join("tmp"), { recursive: true })
  const env = { TMPDIR: scratch.join("tmp"), CNI_ARGS: "a=b" }
  const said = await tool.run(["dry-run", "ADD", "dry", ...args], { interactive: true, env })
  expectUnchanged(before, await takeSnapshot(host))
  expect([await readdir(scratch.join("tmp")), await readdir(scratch.join("data"))]).toEqual([[], []])
  return { ...said, stdout: said.stdout.replaceAll(scratch.path, "SCRATCH") }
}

const result = (result: object) => `echo '${JSON.stringify({ cniVersion: "1.1.0", ...result })}' >&3`

test("links, addresses, routes, settings, files and rules that were made, and nothing of what was there", async () => {
  const { exitCode, stdout, stderr } = await dryRun(
    `set -e
ip link add veth9 type veth peer name "$CNI_IFNAME" netns "$CNI_NETNS"
ip link set veth9 up mtu 1450 master cni0 alias "dry/$CNI_CONTAINERID/$CNI_IFNAME"
ip address add 10.99.0.1/24 dev br1
ip link set br1 up
ip route add 10.98.0.0/16 via 10.99.0.2 dev br1
nsenter --net="$CNI_NETNS" ip address add 10.85.0.5/29 dev "$CNI_IFNAME"
nsenter --net="$CNI_NETNS" ip link set "$CNI_IFNAME" up
nsenter --net="$CNI_NETNS" ip route add default via 10.85.0.1
sysctl -qw net.ipv4.ip_forward=0
mkdir -p /var/lib/cni/networks/dry
echo x >/var/lib/cni/networks/dry/10.85.0.5
echo x >/run/cni/record
echo x >${node.scratch.join("data")}/own
nft add element ip cni_masquerade containers '{ 10.85.0.5 comment "dry/x/eth0" }'
${result({ interfaces: [{ name: "veth9" }, { name: "eth0", sandbox: "/gone" }], ips: [{ address: "10.85.0.5/29", interface: 1 }] })}`,
    [],
    { dataDir: node.scratch.join("data") },
  )
  expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: "" })
  expect(stdout).toBe(
    `INTERFACE  WHERE      MAC  ADDRESS       GATEWAY
veth9      host       -    -             -
eth0       container  -    10.85.0.5/29  -

On the host
  + link cni0: bridge, mtu 1450, up
  + link br1: bridge, mtu 1500, up
  + link veth9: veth, mtu 1450, up, port of cni0, alias dry/dry-run/eth0
  + address 10.99.0.1/24 dev br1
  + route 10.98.0.0/16 via 10.99.0.2 dev br1
  + route 10.99.0.0/24 dev br1
  + net.ipv4.ip_forward = 0, was 1

In the container
  + link eth0: veth, mtu 1500, up
  + address 10.85.0.5/29 dev eth0
  + route default via 10.85.0.1 dev eth0
  + route 10.85.0.0/29 dev eth0

Files
  + /run/cni/record
  + SCRATCH/data/own
  + /var/lib/cni/networks/dry/10.85.0.5

Rules
  table ip cni_masquerade {
    set containers {
      elements = {
        10.85.0.5 comment "dry/x/eth0"
      }
    }
  }

Nothing was changed
`,
  )
})

test("a plugin sees the host's bridges, addresses, routes, rules and settings, stand-ins for its devices, and writes nowhere else", async () => {
  const { exitCode, stdout, stderr } = await dryRun(
    `echo $CNI_COMMAND $CNI_CONTAINERID $CNI_IFNAME $CNI_ARGS
ip -br link show type bridge | awk '{ print $1 }'
ip -br link show up0 | awk '{ print $1, $2, $3 }'
ip -br address show up0 scope global
ip -br address show cni0
ip -br address show lo
ip -br link show veth1 || echo no end of a container
ip -br link show eth7 | awk '{ print $1, $2 }'
ip route
ip -6 route show dev up0 proto boot
nft list tables
cat /proc/sys/net/ipv4/ip_forward
find /run -mindepth 1 -maxdepth 1 -not -name mount | sort
ls /run/netns
touch /etc/cni-dry /tmp/cni-dry ${node.scratch.join("x")}
ls /var/lib/cni/networks/pods
${result({})}`,
    ["--container-id", "c7", "--ifname", "net7"],
    { master: "eth7" },
  )
  expect(exitCode).toBe(0)
  expect(stdout).toBe("\nNothing was changed\n")
  expect(stderr.replace(/ +$/gm, "").replaceAll(node.scratch.path, "SCRATCH")).toBe(
    `ADD c7 net7 a=b
cni0
br1
up0@~1 UP 02:00:00:00:00:aa
up0@~1           UP             192.0.2.2/24 2001:db8::2/64
cni0             DOWN           10.85.0.1/29
lo               UNKNOWN        127.0.0.1/8 ::1/128
Device "veth1" does not exist.
no end of a container
eth7@~2 DOWN
default via 192.0.2.1 dev up0 metric 7
10.85.0.0/29 dev cni0 proto kernel scope link src 10.85.0.1 linkdown
192.0.2.0/24 dev up0 proto kernel scope link src 192.0.2.2
203.0.113.0/24 via 192.0.2.9 dev up0
table ip cni_masquerade
1
/run/cni
/run/netns
touch: cannot touch '/etc/cni-dry': Read-only file system
touch: cannot touch '/tmp/cni-dry': Read-only file system
touch: cannot touch 'SCRATCH/x': Read-only file system
10.85.0.2
10.85.0.3
`,
  )
})

test("an ADD that would fail says why, with its code", async () => {
  const error = `echo '{"cniVersion":"1.1.0","code":11,"msg":"not now","details":"so it is"}' >&3; exit 1`
  expect(await dryRun(error)).toEqual({
    exitCode: 1,
    stdout: "",
    stderr: 'cni dry-run: plugin type="making" failed (add): not now\n  so it is\n',
  })
  expect(await node.tool.run(["dry-run", "DEL", "dry"])).toMatchObject({
    exitCode: 2,
    stdout: "",
    stderr: 'cni dry-run: cannot try DEL: expected ADD. "cni dry-run --help" shows how\n',
  })
})

test("for programs it is JSON, with the container instead of its path", async () => {
  // Of /run only what the run needs is seen: here a directory of plugins.
  const path = `${node.scratch.join("bin")}:/run/netns`
  const script = `test -e ${node.pod.path} || exit 1\n${result({ interfaces: [{ name: "eth0", sandbox: "/gone" }] })}`
  const { exitCode, stdout } = await dryRun(script, ["--json", "--bin-dir", path])
  const nothing = { links: [], addresses: [], routes: [] }
  expect({ exitCode, made: JSON.parse(stdout) }).toEqual({
    exitCode: 0,
    made: {
      result: { cniVersion: "1.1.0", interfaces: [{ name: "eth0", sandbox: "container" }] },
      host: nothing,
      container: nothing,
      sysctls: {},
      files: [],
      rules: "",
    },
  })
})
