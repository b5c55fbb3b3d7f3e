import { expect } from "bun:test"
import { existsSync } from "node:fs"
import { copyFile, mkdir } from "node:fs/promises"
import { join } from "node:path"
import { type ContainerNamespace, CProgram, waitFor } from "../lab/mod.ts"
import type { Fault } from "./faults-table.ts"
import type { NodeLab } from "./node-lab.ts"

const nft = (lab: NodeLab, table: string, hook: string, rule = "") =>
  lab.host.exec("nft", ["-f", "-"], { input: `table ${table} {\n chain c {\n type ${hook};\n ${rule}\n }\n}\n` })
const endOf = async ({ host }: NodeLab) =>
  (await host.json<{ ifname: string }[]>("ip", ["-j", "link", "show", "type", "veth"]))[0]?.ifname ?? ""
const setPort = async (lab: NodeLab, ...words: string[]) =>
  lab.host.exec("bridge", ["link", "set", "dev", await endOf(lab), ...words])
/** Returns the MAC address of a pod, and the host's end of another pod. */
async function macAndOtherEnd({ host }: NodeLab, pod: ContainerNamespace | undefined): Promise<[string, string]> {
  const [link] = (await pod?.json<{ address: string }[]>("ip", ["-j", "link", "show", "eth0"])) ?? []
  const ends = await host.json<{ ifname: string; ifalias: string }[]>("ip", ["-j", "link", "show", "type", "veth"])
  return [link?.address ?? "", ends.find(({ ifalias }) => !ifalias.includes(pod?.name ?? ""))?.ifname ?? ""]
}
const store = "/var/lib/cni/networks/pods"
const xfrm = (lab: NodeLab, ...words: string[]) => lab.host.exec("ip", ["xfrm", "policy", ...words])

/** Installs the plugins with `cni install`, then replaces bridge by the Go plugin. */
async function replaceBridge(lab: NodeLab): Promise<void> {
  lab.binDir = lab.directory.join("placed")
  await mkdir(lab.binDir)
  expect((await lab.cni(["install", "--bin-dir", lab.binDir])).exitCode).toBe(0)
  await copyFile("/usr/lib/cni/bridge", `${lab.binDir}/bridge`)
}
/** Kills `cni install` at each of its renames, until it has done the rename that commits the installation. */
async function killInstaller(lab: NodeLab): Promise<void> {
  const renames = "rename,renameat,renameat2"
  for (let at = 1; !existsSync(`${lab.binDir}/.cni-install/ready`); at++) {
    const inject = ["-e", `trace=${renames}`, "-e", `inject=${renames}:signal=SIGKILL:when=${at}`]
    const strace = ["strace", "-f", "-qq", "-o", "/dev/null", ...inject]
    const { exitCode } = await lab.cni(["install", "--bin-dir", lab.binDir, "--adopt"], {}, strace)
    expect(exitCode).toBe(128 + 9)
  }
}

/** Faults on a packet's path outside the usual hooks of the packet filter, and in the records of host-local and ADD. */
export const faultsOnPaths: readonly Fault[] = [
  {
    rule: "netdev-drop",
    how: "a policy at the ingress of the bridge",
    severity: "error",
    names: /^table netdev guard, chain c drops TCP from "pods\/.* at "cni0", by its policy/,
    seed: (lab) => nft(lab, "netdev guard", "filter hook ingress device cni0 priority 0; policy drop"),
    words: /"nft -a list chain netdev guard c" shows it$/,
    mend: ({ host }) => host.exec("nft", ["delete table netdev guard"]),
  },
  {
    rule: "netdev-drop",
    how: "a rule at the egress of a container's end",
    severity: "error",
    names: /^a rule in table netdev guard, chain c drops .* at "veth[^"]+": chain c, handle \d+/,
    seed: async (lab) =>
      nft(lab, "netdev guard", `filter hook egress device ${await endOf(lab)} priority 0`, "counter drop"),
    words: /"nft -a list chain netdev guard c" shows it$/,
    mend: ({ host }) => host.exec("nft", ["delete table netdev guard"]),
  },
  {
    rule: "xdp-program",
    severity: "warning",
    names: /^an XDP program \(id \d+\) is attached to "veth[^"]+"$/,
    seed: async (lab, pods) => {
      await using drop = await CProgram.build(join(import.meta.dir, "xdp-drop.c"))
      const end = await endOf(lab)
      await lab.host.exec(drop.path, [end])
      const [link] = await lab.host.json<{ ifalias: string }[]>("ip", ["-j", "link", "show", end])
      const pod = pods.find(({ name }) => link?.ifalias.includes(name))
      const { stdout } = await lab.cni(["trace", "pods", pod?.path ?? "", "--to", "10.85.0.1"])
      expect(stdout).toMatch(/^\? +filter +an XDP program \(id \d+\) at "veth.*may drop it before all rules$/m)
      expect((await pod?.tryExec("ping", ["-c1", "-W1", "10.85.0.1"]))?.exitCode).toBe(1)
    },
    words: /^it may be intended; if not, detach it, .*"bpftool prog show id \d+" shows it$/,
    mend: async (lab) => {
      for (const mode of ["xdpdrv", "xdpgeneric"])
        await lab.host.tryExec("ip", ["link", "set", "dev", await endOf(lab), mode, "off"])
    },
  },
  {
    rule: "port-setting",
    how: "locked",
    severity: "error",
    names: /^the bridge's port "veth[^"]+" of .*shop\/web-\d.* has locked on$/,
    seed: (lab) => setPort(lab, "locked", "on"),
  },
  {
    rule: "port-setting",
    how: "no broadcasts, and no MACs",
    severity: "error",
    names: /^the bridge's port "veth[^"]+" of .* has bcast_flood off, flood off, learning off$/,
    seed: (lab) => setPort(lab, "bcast_flood", "off", "flood", "off", "learning", "off"),
  },
  {
    rule: "port-setting",
    how: "of all ports",
    severity: "warning",
    names: /^2 ports of containers have flood off: /,
    seed: ({ host }) =>
      host.exec("sh", [
        "-ec",
        "for end in $(ls /sys/class/net/cni0/brif); do bridge link set dev $end flood off; done",
      ]),
  },
  {
    rule: "ipsec-policy",
    how: "that blocks",
    severity: "error",
    names:
      /^the IPsec policy "src 10\.85\.0\.0\/24 dst 0\.0\.0\.0\/0 dir fwd" matches packets of containers, and blocks them: /,
    seed: (lab) =>
      xfrm(lab, "add", "src", "10.85.0.0/24", "dst", "0.0.0.0/0", "dir", "fwd", "priority", "9", "action", "block"),
    words:
      /^exclude packets of containers from the policy, with the program that created it; "ip xfrm policy" shows it$/,
    mend: (lab) => xfrm(lab, "flush"),
  },
  {
    rule: "ipsec-policy",
    how: "for a tunnel without a state",
    severity: "error",
    names:
      /dst 0\.0\.0\.0\/0 dir out" matches packets of containers, and requires an IPsec state that does not exist: /,
    seed: (lab) => {
      const tunnel = "tmpl src 192.0.2.2 dst 192.0.2.9 proto esp reqid 7 mode tunnel".split(" ")
      return xfrm(lab, "add", "src", "10.85.0.0/24", "dst", "0.0.0.0/0", "dir", "out", ...tunnel)
    },
    words:
      /^exclude packets of containers from the policy, with the program that created it; "ip xfrm policy" shows it$/,
    mend: (lab) => xfrm(lab, "flush"),
  },
  {
    rule: "ipsec-policy",
    how: "the default, but for what another policy lets pass",
    severity: "error",
    names: /^the default IPsec policy of direction fwd matches packets of containers, and blocks them: /,
    seed: async (lab) => {
      await xfrm(lab, "add", "src", "10.85.0.0/24", "dst", "0.0.0.0/0", "dir", "in", "action", "allow")
      await xfrm(lab, "setdefault", "fwd", "block", "in", "block")
      await xfrm(lab, "add", "src", "0.0.0.0/0", "dst", "10.85.0.0/24", "dir", "in", "action", "allow")
    },
    words:
      /^exclude packets of containers from the policy, with the program that created it; "ip xfrm policy" shows it$/,
    mend: (lab) => xfrm(lab, "setdefault", "fwd", "accept", "in", "accept"),
  },
  {
    rule: "store-broken",
    how: "a lock that is a directory",
    severity: "error",
    names: /^"\/var\/lib\/cni\/networks\/pods\/lock" is a directory, but host-local needs a file there$/,
    seed: async (lab) => {
      await lab.host.exec("sh", ["-ec", `rm ${store}/lock; mkdir ${store}/lock`])
      await expect(lab.addPod("late")).rejects.toThrow(`"${store}/lock"`)
    },
    besides: ["status"],
  },
  {
    rule: "port-address-missing",
    severity: "warning",
    names:
      /^port 203\.0\.113\.9:8100\/tcp leads to 10\.85\.0\.4:80 \(pods\/.*\), but the host does not have 203\.0\.113\.9$/,
    seed: async (lab) => {
      const { path } = await lab.host.addContainer()
      const portMappings = [{ hostPort: 8100, containerPort: 80, protocol: "tcp", hostIP: "203.0.113.9" }]
      expect(await lab.cni(["add", "pods", path], { CAP_ARGS: JSON.stringify({ portMappings }) })).toMatchObject({
        stderr: "",
      })
    },
    words: /^publish the port at an address of the host, or at all of them: /,
    mend: ({ host }) => host.exec("ip", ["address", "add", "203.0.113.9/32", "dev", "lo"]),
  },
  {
    rule: "store-locked",
    how: "by a process that hangs",
    severity: "error",
    names:
      /^no address of network "pods" can be reserved: Cannot lock "\/var\/lib\/cni\/networks\/pods\/lock": held by process \d+ \(sleep\), /,
    seed: async ({ host }) => {
      await host.exec("sh", ["-ec", `flock --no-fork ${store}/lock sleep 600 >/dev/null 2>&1 & echo $! >/run/holder`])
    },
    words: /^find out why the process waits, or end it: /,
    mend: async ({ host }) => {
      await host.exec("sh", ["-c", "kill $(cat /run/holder)"])
    },
  },
  {
    rule: "store-broken",
    how: "FIFOs at an address, at the cursor and as the lock",
    severity: "error",
    names: /^3 entries of "\/var\/lib\/cni\/networks\/pods" do not have the file type that host-local needs: /,
    seed: ({ host }) =>
      host.exec("sh", ["-ec", `cd ${store}; rm lock last_reserved_ip.0; mkfifo lock last_reserved_ip.0 10.85.0.9`]),
    besides: ["status", "stale-lease"],
  },
  {
    rule: "store-broken",
    how: "a FIFO in the index",
    severity: "error",
    names:
      /^"\/var\/lib\/cni\/networks\/pods\/\.index\/owners-\w+" is a FIFO, a socket or a device, but host-local needs a file there$/,
    seed: async (lab) => {
      await lab.host.exec("sh", ["-ec", `cd ${store}/.index; first=$(ls | grep -m1 owners); rm $first; mkfifo $first`])
      await lab.addPod("late")
    },
  },
  {
    rule: "cannot-look",
    how: "a file where the directory of leases belongs",
    severity: "error",
    names: /^"\/var\/lib\/cni\/networks" is not a directory, but plugins/,
    seed: ({ host }) => host.exec("sh", ["-ec", "cd /var/lib/cni; mv networks kept; touch networks"]),
    besides: ["status"],
    mend: ({ host }) => host.exec("sh", ["-ec", "cd /var/lib/cni; rm -r networks*; mv kept networks"]),
  },
  {
    rule: "cannot-look",
    how: "a file where the directory of the cache belongs",
    severity: "error",
    names: /^"\/var\/lib\/cni\/results" is not a directory, but plugins/,
    seed: ({ host }) => host.exec("sh", ["-ec", "cd /var/lib/cni; mv results kept; touch results"]),
    mend: ({ host }) => host.exec("sh", ["-ec", "cd /var/lib/cni; rm -r results*; mv kept results"]),
  },
  {
    rule: "link-down",
    how: "the host's loopback interface",
    severity: "error",
    names: /^interface "lo" of the host is down$/,
    seed: ({ host }) => host.exec("ip", ["link", "set", "lo", "down"]),
  },
  {
    rule: "not-in-bridge",
    how: "but of another bridge, which is one fault",
    severity: "error",
    names: /^"veth[^"]+", the host's end of .* is not a port of bridge "cni0"$/,
    seed: async (lab) => {
      await lab.host.exec("ip", ["link", "add", "other0", "up", "type", "bridge"])
      await lab.host.exec("ip", ["link", "set", await endOf(lab), "master", "other0"])
    },
  },
  {
    rule: "plugin-replaced",
    severity: "warning",
    names: /^plugin "bridge" in .*placed was replaced since it was installed: it now reports "CNI bridge/,
    seed: replaceBridge,
    besides: ["plugins-mixed", "status"],
  },
  {
    rule: "install-interrupted",
    severity: "warning",
    names: /^an installation into .*placed was interrupted$/,
    seed: async (lab) => {
      await replaceBridge(lab)
      await killInstaller(lab)
    },
    besides: ["plugin-replaced", "plugins-mixed", "status"],
  },
  {
    rule: "link-twice",
    severity: "warning",
    names: /^"veth-old" is recorded as the host's end of .*\(pod shop\/web-1\), but "veth/,
    seed: async (lab, [pod, other]) => {
      await lab.host.exec("ip", [
        "link",
        "add",
        "veth-old",
        "type",
        "veth",
        "peer",
        "name",
        "old0",
        "netns",
        other?.path ?? "",
      ])
      await lab.host.exec("ip", ["link", "set", "veth-old", "up", "alias", `pods/${pod?.name}/eth0`])
    },
  },
  {
    rule: "bridge-entry-wrong",
    how: "to another port",
    severity: "error",
    names:
      /^bridge "cni0" has a static entry that sends frames for [0-9a-f:]{17}, the MAC of "eth0" of .*, to port "veth[^"]+"$/,
    seed: async (lab, [pod]) => {
      const [mac, end] = await macAndOtherEnd(lab, pod)
      await lab.host.exec("bridge", ["fdb", "replace", mac, "dev", end, "master", "static", "sticky"])
      expect((await lab.host.tryExec("ping", ["-c1", "-W1", "10.85.0.2"])).exitCode).toBe(1)
    },
    words: /"bridge fdb get [0-9a-f:]{17} br cni0" shows it$/,
    mend: async (lab, [pod]) => {
      const [mac, end] = await macAndOtherEnd(lab, pod)
      await lab.host.exec("bridge", ["fdb", "delete", mac, "dev", end, "master"])
    },
  },
  {
    rule: "bridge-entry-wrong",
    how: "to the host",
    severity: "error",
    names:
      /^bridge "cni0" has a static entry that sends frames for [0-9a-f:]{17}, the MAC of "eth0" of .*, to the host itself$/,
    seed: async (lab, [pod]) => {
      const [mac] = await macAndOtherEnd(lab, pod)
      await lab.host.exec("bridge", ["fdb", "replace", mac, "dev", "cni0", "self", "local"])
      expect((await lab.host.tryExec("ping", ["-c1", "-W1", "10.85.0.2"])).exitCode).toBe(1)
    },
    words: /"bridge fdb get [0-9a-f:]{17} br cni0" shows it$/,
    mend: async (lab, [pod]) => {
      const [mac] = await macAndOtherEnd(lab, pod)
      await lab.host.exec("bridge", ["fdb", "delete", mac, "dev", "cni0", "self"])
    },
  },
  {
    rule: "uplink-down",
    severity: "error",
    names: /^"out0", the interface of the host's default route, has no carrier$/,
    seed: ({ host }) =>
      host.exec("sh", [
        "-ec",
        "ip link add out0 type veth peer out1; ip link set out0 up; ip address add 192.0.2.2/24 dev out0; ip route add default via 192.0.2.1",
      ]),
    words: /^check its cable and the other end: ip -d link show out0$/,
    mend: async ({ host }) => {
      await host.exec("ip", ["link", "set", "out1", "up"])
      // The kernel reports a new carrier up to a second later.
      await waitFor(async () => {
        const links = await host.json<{ operstate: string }[]>("ip", ["-j", "link", "show", "out0"])
        return links[0]?.operstate === "UP"
      }, "the carrier of out0")
    },
  },
]
