import { expect } from "bun:test"
import { chmod, copyFile, rm } from "node:fs/promises"
import type { FindingName } from "../../tools/doctor/mod.ts"
import {
  advertiseRouter,
  builtPlugins,
  type ContainerNamespace,
  chooseIptables,
  connect,
  type Feature,
  learnt,
  mountOver,
  startDaemon,
  waitFor,
  writeSysctl,
} from "../lab/mod.ts"
import { type NodeLab, podsNetwork } from "./node-lab.ts"

/** A fault on a node with two running pods, the expected finding, and the repair. */
export interface Fault {
  readonly rule: FindingName
  /** The difference from other faults of the same rule. */
  readonly how?: string
  readonly needs?: Feature
  readonly severity: "error" | "warning"
  /** A pattern of the message, with the names that it must contain. */
  readonly names: RegExp
  seed(lab: NodeLab, pods: readonly ContainerNamespace[]): Promise<unknown> | undefined
  /** Other findings that the fault causes. */
  readonly besides?: readonly FindingName[]
  /** A pattern of the remedy. Set if the remedy is advice instead of a command, so that `mend` repairs the fault. */
  readonly words?: RegExp
  mend?(lab: NodeLab, pods: readonly ContainerNamespace[]): Promise<unknown> | undefined
}

/** Adds a table with one chain and one rule. */
const nft = (lab: NodeLab, table: string, hook: string, rule = "") =>
  lab.host.exec("nft", ["-f", "-"], { input: `table ${table} {\n chain c {\n type ${hook};\n ${rule}\n }\n}\n` })
const endOf = async ({ host }: NodeLab) => {
  const links = await host.json<{ ifname: string }[]>("ip", ["-j", "link", "show", "type", "veth"])
  return links[0]?.ifname ?? ""
}
const endsOf = async ({ host }: NodeLab) =>
  (await host.json<{ ifname: string }[]>("ip", ["-j", "link", "show", "type", "veth"])).map(({ ifname }) => ifname)
/** The beginning of an executable for arm64, which these test machines refuse; <elf.h>. */
const ofAnotherMachine = Buffer.concat([
  Buffer.from("7f454c460201010000000000000000000200b70001000000", "hex"),
  Buffer.alloc(4096),
])
const second = (keys: object) => ({
  ...podsNetwork,
  name: "second",
  plugins: [{ ...podsNetwork.plugins[0], bridge: "cni1", ...keys }],
})
const subnet = (...texts: string[]) => ({
  ipam: { type: "host-local", ranges: [texts.map((text) => ({ subnet: text }))] },
})

/** The faults, each of which breaks a node in a different way. */
export const faults: readonly Fault[] = [
  {
    rule: "forwarding-off",
    severity: "error",
    names: /ip_forward is 0/,
    seed: ({ host }) => writeSysctl(host, "net/ipv4/ip_forward", "0"),
  },
  {
    rule: "forwarding-off-link",
    severity: "error",
    names: /conf\/cni0\/forwarding is 0/,
    seed: ({ host }) => writeSysctl(host, "net/ipv4/conf/cni0/forwarding", "0"),
  },
  {
    rule: "router-ignored",
    severity: "error",
    names: /"uplink".* accept_ra is 1/,
    seed: async ({ host }) => {
      const router = await host.addContainer()
      const uplink = { namespace: host, link: "uplink", addresses: ["198.51.100.1/24"] }
      await connect(uplink, { namespace: router, link: "lan", addresses: ["198.51.100.2/24"] })
      await host.exec("ip", ["route", "add", "default", "via", "198.51.100.2"])
      await advertiseRouter(router, "lan", host)
      await waitFor(async () => (await learnt(host)).includes("2001:db8:bad:"), "an address by the advertisement")
      await writeSysctl(host, "net/ipv6/conf/all/forwarding", "1")
    },
    words: /^set accept_ra of "[^"]+" to 2, /,
    mend: async ({ host }) => {
      await writeSysctl(host, "net/ipv6/conf/uplink/accept_ra", "2")
      await host.exec("ip", ["-6", "route", "add", "default", "via", "fe80::1", "dev", "uplink", "proto", "ra"])
    },
  },
  {
    rule: "rp-filter-strict",
    severity: "warning",
    names: /cni0/,
    seed: ({ host }) => writeSysctl(host, "net/ipv4/conf/cni0/rp_filter", "1"),
  },
  {
    rule: "br-netfilter-off",
    severity: "warning",
    names: /bridge-nf-call-iptables is 0/,
    seed: ({ host }) => writeSysctl(host, "net/bridge/bridge-nf-call-iptables", "0"),
  },
  {
    rule: "conntrack-full",
    severity: "warning",
    names: /95 of 100/,
    seed: async (lab) => {
      for (const [name, value] of Object.entries({ count: "95", max: "100" })) {
        await Bun.write(lab.directory.join(name), value)
        await mountOver(lab.host, `/proc/sys/net/netfilter/nf_conntrack_${name}`, lab.directory.join(name))
      }
    },
  },
  {
    rule: "forward-drop",
    severity: "error",
    names: /ip filter, chain FORWARD \(made by docker\) drops (TCP|an echo request) from "pods\/.*, by its policy/,
    how: "docker",
    seed: async ({ host }) => {
      await chooseIptables(host, "nf_tables")
      await host.exec("nft", ["-f", "-"], {
        input: `table ip filter {
          chain DOCKER-USER {
          }
          chain FORWARD {
            type filter hook forward priority 0; policy drop;
            jump DOCKER-USER
            iifname "docker0" accept
          }
        }`,
      })
    },
    words: /^allow such packets there: its chain DOCKER-USER is for rules such as/,
    mend: ({ host }) =>
      host.exec("nft", [
        'add rule ip filter DOCKER-USER iifname "cni0" accept; add rule ip filter DOCKER-USER oifname "cni0" accept',
      ]),
  },
  {
    rule: "forward-drop-rule",
    severity: "error",
    names: /inet guard.*chain c/,
    seed: (lab) => nft(lab, "inet guard", "filter hook forward priority 0", 'iifname "cni0" counter drop'),
    words: /^allow such packets there, with the program that created it; "nft -a list chain inet guard c" shows it$/,
    mend: ({ host }) => host.exec("nft", ["delete table inet guard"]),
  },
  {
    rule: "host-drop",
    severity: "error",
    names:
      /^a rule in table inet guard, chain c drops an echo request from "pods\/.* to 10\.85\.0\.1: chain c, handle \d+/,
    seed: (lab) => nft(lab, "inet guard", "filter hook input priority 0", 'iifname "cni0" counter drop'),
    words: /^allow such packets there, with the program that created it; "nft -a list chain inet guard c" shows it$/,
    mend: ({ host }) => host.exec("nft", ["delete table inet guard"]),
  },
  {
    rule: "table-dormant",
    severity: "error",
    names: /table ip cni_hostports is dormant/,
    seed: ({ host }) => host.exec("nft", ["add table ip cni_hostports { flags dormant; }"]),
  },
  {
    rule: "port-taken",
    severity: "warning",
    names: /8001.*10\.85\.0\.2:80.*busybox \(process \d+\) listens/,
    seed: async (lab) => {
      await startDaemon(lab.host.commandLine(["busybox", "nc", "-ll", "-p", "8001", "-e", "true"]))
      const listeners = async () => (await lab.host.exec("cat", ["/proc/net/tcp", "/proc/net/tcp6"])).stdout
      await waitFor(async () => (await listeners()).includes(":1F41 "), "a process that listens on the port")
    },
    words: /ss -ltnp sport = :8001/,
    mend: async ({ host }) => {
      const { stdout } = await host.exec("ss", ["-Hltnp", "sport = :8001"])
      await host.exec("kill", [/pid=(\d+)/.exec(stdout)?.[1] ?? ""])
      const listeners = async () => (await host.exec("ss", ["-Hltn", "sport = :8001"])).stdout
      await waitFor(async () => (await listeners()) === "", "the process to end")
    },
  },
  {
    rule: "link-down",
    severity: "error",
    names: /"cni0"/,
    seed: ({ host }) => host.exec("ip", ["link", "set", "cni0", "down"]),
  },
  {
    rule: "not-in-bridge",
    severity: "error",
    names: /is not a port of bridge "cni0"/,
    seed: async (lab) => lab.host.exec("ip", ["link", "set", await endOf(lab), "nomaster"]),
  },
  {
    rule: "bridge-missing",
    severity: "error",
    names: /^bridge "cni0" does not exist, but 2 containers need it: .*web-\d.*web-\d/,
    seed: ({ host }) => host.exec("ip", ["link", "delete", "cni0"]),
  },
  {
    rule: "gateway-missing",
    severity: "error",
    names: /10\.85\.0\.1/,
    seed: ({ host }) => host.exec("ip", ["address", "flush", "dev", "cni0"]),
  },
  {
    rule: "mtu-mismatch",
    severity: "warning",
    names: /"veth.*1300/,
    seed: async (lab) => {
      await lab.host.exec("ip", ["link", "set", await endOf(lab), "mtu", "1300"])
      await lab.host.exec("ip", ["link", "set", "cni0", "mtu", "1500"])
    },
  },
  {
    rule: "mtu-uplink",
    severity: "warning",
    names: /"out0".*1400/,
    seed: async ({ host }) => {
      await host.exec("ip", ["link", "add", "out0", "mtu", "1400", "type", "bridge"])
      await host.exec("ip", ["address", "add", "192.0.2.2/24", "dev", "out0"])
      await host.exec("ip", ["link", "set", "out0", "up"])
      await host.exec("ip", ["route", "add", "default", "via", "192.0.2.1"])
    },
  },
  {
    rule: "missing-host-end",
    severity: "error",
    names: /shop\/web/,
    seed: async (lab) => lab.host.exec("ip", ["link", "delete", await endOf(lab)]),
  },
  {
    rule: "missing-masquerade",
    severity: "error",
    names: /shop\/web/,
    seed: ({ host }) => host.exec("nft", ["delete", "table", "ip", "cni_masquerade"]),
  },
  {
    rule: "missing-ports",
    severity: "error",
    names: /^table ip cni_hostports does not exist: no published port is forwarded to 2 containers/,
    seed: ({ host }) => host.exec("nft", ["delete", "table", "ip", "cni_hostports"]),
    besides: ["route-localnet-open"],
  },
  {
    rule: "missing-spoof-check",
    needs: "nf_tables_bridge",
    severity: "error",
    names: /^table bridge cni_spoofcheck does not exist: the source MACs of 2 containers are not checked/,
    seed: async (lab) => {
      await lab.writeNetwork("20-second.conflist", second({ macspoofchk: true, ...subnet("10.87.0.0/24") }))
      for (const name of ["s1", "s2"]) await lab.addPod(name, "second")
      await lab.host.exec("nft", ["delete", "table", "bridge", "cni_spoofcheck"])
    },
  },
  {
    rule: "missing-policy",
    severity: "error",
    names: /^table inet cni_firewall does not exist: "ingressPolicy" is not in force for 2 containers/,
    seed: async (lab) => {
      const { plugins, ...network } = second(subnet("10.87.0.0/24"))
      const firewall = { type: "firewall", backend: "nftables", ingressPolicy: "same-bridge" }
      await lab.writeNetwork("20-second.conflist", { ...network, plugins: [...plugins, firewall] })
      for (const name of ["f1", "f2"]) await lab.addPod(name, "second")
      await lab.host.exec("nft", ["delete", "table", "inet", "cni_firewall"])
    },
  },
  {
    rule: "missing-limit",
    needs: "tbf",
    severity: "warning",
    names: /^"veth.*does not limit traffic to the container, but its network sets "ingressRate" to 1000000$/,
    seed: async (lab) => {
      const { plugins, ...network } = second(subnet("10.87.0.0/24"))
      const bandwidth = { type: "bandwidth", ingressRate: 1_000_000, ingressBurst: 1_000_000 }
      await lab.writeNetwork("20-second.conflist", { ...network, plugins: [...plugins, bandwidth] })
      const pod = await lab.addPod("slow", "second")
      const links = await lab.host.json<{ ifname: string; ifalias?: string }[]>("ip", ["-j", "link"])
      const end = links.find(({ ifalias }) => ifalias?.includes(pod.name))?.ifname ?? ""
      await lab.host.exec("tc", ["qdisc", "delete", "dev", end, "root"])
    },
  },
  {
    rule: "missing-masquerade",
    how: "of its set of containers",
    severity: "error",
    names: /^rules were removed from table ip cni_masquerade: no masquerade for 2 containers/,
    seed: ({ host }) => host.exec("nft", ["flush", "set", "ip", "cni_masquerade", "containers"]),
  },
  {
    rule: "record-broken",
    severity: "error",
    names: /^"\/var\/lib\/cni\/results\/pods-.*-eth0" holds no record/,
    seed: async (lab, [pod]) => {
      const file = `/var/lib/cni/results/pods-${pod?.name}-eth0`
      await lab.host.exec("sh", ["-ec", `cp ${file} /run/cni/copy; truncate -s 100 ${file}`])
      const { exitCode, stderr } = await lab.cni(["gc", "pods", "--auto"])
      expect({ exitCode, stderr }).toEqual({
        exitCode: 1,
        stderr: expect.stringContaining(`"${file}" is not a valid record`),
      })
    },
    words: /^restart the container, or make sure that it no longer exists; then rm \/var\/lib\/cni\/results\/pods-/,
    mend: ({ host }, [pod]) => host.exec("cp", ["/run/cni/copy", `/var/lib/cni/results/pods-${pod?.name}-eth0`]),
  },
  {
    rule: "record-broken",
    how: "a FIFO among the records, which holds up no command",
    severity: "error",
    names: /^"\/var\/lib\/cni\/results\/pods-fifo-eth0" holds no record/,
    seed: async (lab) => {
      await lab.host.exec("mkfifo", ["/var/lib/cni/results/pods-fifo-eth0"])
      for (const words of [["ps"], ["graph"], ["status", "pods"]]) expect((await lab.cni(words)).exitCode).toBe(0)
      const { stderr } = await lab.cni(["gc", "pods", "--auto"])
      expect(stderr).toContain('"/var/lib/cni/results/pods-fifo-eth0" holds no record')
    },
    words:
      /^restart the container, or make sure that it no longer exists; then rm \/var\/lib\/cni\/results\/pods-fifo-eth0/,
    mend: ({ host }) => host.exec("rm", ["/var/lib/cni/results/pods-fifo-eth0"]),
  },
  {
    rule: "missing-lease",
    severity: "error",
    names: /10\.85\.0\.2/,
    seed: ({ host }) => host.exec("rm", ["/var/lib/cni/networks/pods/10.85.0.2"]),
  },
  {
    rule: "duplicate-address",
    severity: "error",
    names: /10\.85\.0\.2/,
    seed: ({ host }, [, pod]) =>
      host.exec("sed", ["-i", "s/10.85.0.3/10.85.0.2/", `/var/lib/cni/results/pods-${pod?.name}-eth0`]),
    words: /^delete "pods\/.*with the runtime and create it again/,
    mend: ({ host }, [, pod]) =>
      host.exec("sed", ["-i", "s/10.85.0.2\\//10.85.0.3\\//", `/var/lib/cni/results/pods-${pod?.name}-eth0`]),
    besides: ["container-address-missing"], // the container has the address from before the change of its record
  },
  {
    rule: "stale-lease",
    severity: "warning",
    names: /10\.85\.0\.2/,
    seed: async (lab, [pod]) => {
      if (pod) await lab.losePod(pod)
      await lab.host.exec("rm", [`/var/lib/cni/results/pods-${pod?.name}-eth0`])
    },
  },
  {
    rule: "stale-cache",
    severity: "warning",
    names: /no namespace/,
    seed: (lab, [pod]) => pod && lab.losePod(pod),
  },
  {
    rule: "netns-unmounted",
    severity: "error",
    names: /^the namespaces of 2 running containers are no longer at their paths in "\/run\/netns": /,
    seed: async (lab, pods) => {
      for (const pod of pods) {
        await startDaemon(pod.commandLine(["sleep", "infinity"]))
        await lab.host.exec("umount", [pod.path])
      }
      const { stdout } = await lab.cni(["gc", "pods", "--auto", "--dry-run", "--json"])
      expect(stdout).not.toMatch(/delete/) // running containers keep their addresses
    },
  },
  {
    rule: "orphaned-rules",
    severity: "warning",
    names: /cni_hostports ports/,
    seed: async (lab, [pod]) => {
      if (pod) await lab.losePod(pod)
      await lab.host.exec("sh", ["-c", `rm /var/lib/cni/results/*${pod?.name}* /var/lib/cni/networks/pods/10.85.0.2`])
    },
  },
  {
    rule: "orphaned-link",
    severity: "warning",
    names: /"veth/,
    seed: ({ host }, [pod]) => host.exec("rm", [`/var/lib/cni/results/pods-${pod?.name}-eth0`]),
  },
  {
    rule: "config-broken",
    severity: "error",
    names: /05-broken/,
    seed: (lab) => lab.writeNetwork("05-broken.conflist", "{"),
    words: /cni lint .*05-broken/,
    mend: (lab) => rm(`${lab.confDir}/05-broken.conflist`),
  },
  {
    rule: "config-broken",
    how: "a FIFO, which holds up no command",
    severity: "error",
    names: /05-fifo\.conflist" cannot be used: .*it is not a regular file/,
    seed: ({ host, confDir }) => host.exec("mkfifo", [`${confDir}/05-fifo.conflist`]),
    words: /cni lint .*05-fifo/,
    mend: (lab) => rm(`${lab.confDir}/05-fifo.conflist`),
  },
  {
    rule: "config-twice",
    severity: "warning",
    names: /10-pods\.conflist and in 20-pods\.conflist/,
    seed: (lab) => lab.writeNetwork("20-pods.conflist", podsNetwork),
    words: /^rename one of the networks, or move the unintended file away: .*10-pods.*20-pods\.conflist$/,
    mend: (lab) => rm(`${lab.confDir}/20-pods.conflist`),
  },
  {
    rule: "config-exposed",
    severity: "warning",
    names: /^2 files of networks in ".*" can be changed by users other than root: ".*net\.d", ".*10-pods\.conflist"$/,
    seed: ({ host, confDir }) => host.exec("sh", ["-ec", `chmod 777 ${confDir}; chown 1234 ${confDir}/*`]),
  },
  {
    rule: "subnets-overlap",
    severity: "error",
    names: /10\.85\.0\.0\/24.*10\.85\.0\.128\/25/,
    seed: (lab) => lab.writeNetwork("20-second.conflist", second(subnet("10.85.0.128/25"))),

    words: /another subnet, in .*10-pods\.conflist or .*20-second/,
    mend: (lab) => lab.writeNetwork("20-second.conflist", second(subnet("10.99.0.0/24"))),
  },
  {
    rule: "route-overlap",
    severity: "error",
    names: /10\.86\.0\.0\/16 by lan0/,
    seed: async (lab) => {
      await lab.writeNetwork("20-second.conflist", second(subnet("10.86.1.0/24")))
      await lab.host.exec("ip", ["link", "add", "lan0", "type", "bridge"])
      await lab.host.exec("ip", ["address", "add", "10.86.0.1/16", "dev", "lan0"])
      await lab.host.exec("ip", ["link", "set", "lan0", "up"])
    },
    words: /^give the network another subnet, in .*20-second\.conflist, or change the route$/,
    mend: ({ host }) => host.exec("sh", ["-c", "ip route delete 10.86.0.0/16 dev lan0"]),
  },
  {
    rule: "pool-nearly-full",
    severity: "warning",
    names: /2 of 2|4 of 5|5 of 6/,
    seed: async (lab) => {
      await lab.writeNetwork("20-second.conflist", second(subnet("10.87.0.0/29")))
      for (let count = 0; count < 4; count++) await lab.addPod(`more-${count}`, "second")
    },
    words: /add a range to "ranges" in .*20-second\.conflist/,
    mend: (lab) => lab.writeNetwork("20-second.conflist", second(subnet("10.87.0.0/29", "10.87.1.0/24"))),
  },
  {
    rule: "address-outside",
    severity: "warning",
    names: /^10\.87\.0\.2 is not in this node's range, 10\.88\.0\.0\/24$/,
    seed: async (lab) => {
      const rangesFile = lab.directory.join("second.json")
      const range = (subnet: string) =>
        Bun.write(rangesFile, JSON.stringify({ version: 1, node: "n1", ranges: [subnet], former: [] }))
      await range("10.87.0.0/24")
      await lab.writeNetwork("20-second.conflist", second({ ipam: { type: "host-local", rangesFile } }))
      await lab.addPod("moved", "second", "moved")
      await range("10.88.0.0/24")
    },
    words:
      /^delete the pods, which cni .*ipam ls second lists: their controllers re-create them with addresses of the range/,
    mend: (lab) => lab.cni(["del", "second", "/run/netns/none", "--container-id", "moved", "--ifname", "eth0"]),
  },
  {
    rule: "pool-full",
    severity: "error",
    names: /5 of 5/,
    seed: async (lab) => {
      await lab.writeNetwork("20-second.conflist", second(subnet("10.87.0.0/29")))
      for (let count = 0; count < 5; count++) await lab.addPod(`more-${count}`, "second")
    },
    words: /add a range to "ranges" in .*20-second\.conflist/,
    mend: (lab) => lab.writeNetwork("20-second.conflist", second(subnet("10.87.0.0/29", "10.87.1.0/24"))),
  },
  {
    rule: "status",
    severity: "error",
    names: /resolv/,
    seed: (lab) =>
      lab.writeNetwork(
        "20-second.conflist",
        second({ ipam: { ...subnet("10.87.0.0/24").ipam, resolvConf: "/no/resolv.conf" } }),
      ),
    words: /cni status second checks again/,
    mend: (lab) => lab.writeNetwork("20-second.conflist", second(subnet("10.87.0.0/24"))),
  },
  {
    rule: "kernel-feature",
    needs: "no_dummy",
    severity: "error",
    names: /the kernel has no/,
    seed: (lab) =>
      lab.writeNetwork("20-second.conflist", {
        cniVersion: "1.1.0",
        name: "second",
        plugins: [{ type: "dummy", ipam: { type: "static", addresses: [{ address: "192.0.2.9/24" }] } }],
      }),
    words: /modprobe/,
    mend: (lab) => lab.writeNetwork("20-second.conflist", second(subnet("10.87.0.0/24"))),
  },
  {
    rule: "disk-read-only",
    severity: "error",
    names: /"\/var\/lib\/cni"/,
    seed: ({ host }) => host.exec("mount", ["-o", "remount,ro", "/var/lib/cni"]),
    words: /^find out why, then mount it for writing: findmnt \/var\/lib\/cni shows/,
    mend: ({ host }) => host.exec("mount", ["-o", "remount,rw", "/var/lib/cni"]),
  },
  {
    rule: "disk-full",
    severity: "error",
    names: /"\/run\/cni" is full/,
    seed: async ({ host }) => {
      await host.exec("mount", ["-t", "tmpfs", "-o", "size=64k", "cni-test", "/run/cni"])
      await host.tryExec("dd", ["if=/dev/zero", "of=/run/cni/full", "bs=1k", "count=128"])
    },
    words: /^delete unneeded files there.*du -xa \/run\/cni/,
    mend: ({ host }) => host.exec("rm", ["/run/cni/full"]),
  },
  {
    rule: "clock-behind",
    severity: "warning",
    names: /2 attachments were added later, one at 2[01]\d\d-/,
    seed: ({ host }) => host.exec("sh", ["-c", "touch -d 2099-01-01 /var/lib/cni/results/*"]),
    words: /timedatectl/,
    mend: ({ host }) => host.exec("sh", ["-c", "touch /var/lib/cni/results/*"]),
  },
  {
    rule: "forward-drop",
    how: "a policy",
    severity: "error",
    names: /inet strict, chain c drops (TCP|an echo request) from "pods\/.*, by its policy/,
    seed: (lab) => nft(lab, "inet strict", "filter hook forward priority 10; policy drop"),
    words: /"nft -a list chain inet strict c" shows it$/,
    mend: ({ host }) => host.exec("nft", ["delete table inet strict"]),
  },
  {
    rule: "forward-drop",
    how: "a policy by iptables, and containers without a bridge",
    severity: "error",
    names: /ip filter, chain FORWARD drops (TCP|an echo request) from "pods\/.*, by its policy/,
    seed: async (lab) => {
      await chooseIptables(lab.host, "nf_tables")
      await lab.writeNetwork("20-second.conflist", {
        ...podsNetwork,
        name: "second",
        plugins: [{ type: "ptp", ipMasq: true, ...subnet("10.87.0.0/24") }, podsNetwork.plugins[1]],
      })
      await lab.addPod("other", "second")
      await lab.host.exec("iptables", ["-P", "FORWARD", "DROP"])
    },
    words: /"nft -a list chain ip filter FORWARD" shows it$/,
    mend: ({ host }) => host.exec("iptables", ["-P", "FORWARD", "ACCEPT"]),
  },
  {
    rule: "forward-drop-rule",
    how: "of iptables about their bridge, in a chain of its own",
    severity: "error",
    names: /ip filter, chain FORWARD drops (TCP|an echo request) from "pods\/.*: chain other, handle \d+/,
    seed: async ({ host }) => {
      await chooseIptables(host, "nf_tables")
      await host.exec("sh", [
        "-ec",
        "iptables -N other; iptables -A FORWARD -j other; iptables -A other -i cni0 -j DROP",
      ])
    },
    words: /"nft -a list chain ip filter other" shows it$/,
    mend: ({ host }) => host.exec("iptables", ["-F", "other"]),
  },
  {
    rule: "forward-drop-rule",
    how: "for all",
    severity: "error",
    names: /inet guard, chain c drops (TCP|an echo request) from "pods\/.*: chain c, handle \d+/,
    seed: (lab) => nft(lab, "inet guard", "filter hook forward priority 0", "counter drop"),
    words: /"nft -a list chain inet guard c" shows it$/,
    mend: ({ host }) => host.exec("nft", ["delete table inet guard"]),
  },
  {
    rule: "rp-filter-strict",
    how: "for all",
    severity: "warning",
    names: /cni0/,
    seed: ({ host }) => writeSysctl(host, "net/ipv4/conf/all/rp_filter", "1"),
  },
  {
    rule: "link-down",
    how: "the host's ends",
    severity: "error",
    names: /^the host's ends of 2 containers are down/,
    seed: async (lab) => {
      for (const end of await endsOf(lab)) await lab.host.exec("ip", ["link", "set", end, "down"])
    },
  },
  {
    rule: "missing-lease",
    how: "of all containers",
    severity: "error",
    names: /^the addresses of 2 containers are not reserved/,
    seed: ({ host }) => host.exec("rm", ["-r", "/var/lib/cni/networks/pods"]),
  },
  {
    rule: "stale-lease",
    how: "of five containers, which have used up the range",
    severity: "warning",
    names: /^host-local keeps the addresses of 5 deleted containers of "second"/,
    seed: async (lab) => {
      await lab.writeNetwork("20-second.conflist", second(subnet("10.87.0.0/29")))
      for (let count = 0; count < 5; count++) await lab.losePod(await lab.addPod(`lost-${count}`, "second"))
      await lab.host.exec("sh", ["-c", "rm /var/lib/cni/results/second-*"])
    },
    besides: ["pool-nearly-full", "pool-full"],
  },
  {
    rule: "stale-lease",
    how: "that no plugin has written",
    severity: "warning",
    names: /10\.85\.0\.77/,
    seed: ({ host }) => host.exec("sh", ["-c", "echo garbage > /var/lib/cni/networks/pods/10.85.0.77"]),
  },
  {
    rule: "record-exposed",
    how: "in the cache",
    severity: "error",
    names: /^2 files in "\/var\/lib\/cni\/results" can be changed/,
    seed: ({ host }) => host.exec("sh", ["-c", "chmod 666 /var/lib/cni/results/*"]),
  },
  {
    rule: "record-exposed",
    how: "a lease of another user",
    severity: "error",
    names: /networks\/pods\/10\.85\.0\.2" \(mode 600, user 1234\)/,
    seed: ({ host }) => host.exec("chown", ["1234", "/var/lib/cni/networks/pods/10.85.0.2"]),
  },
  {
    rule: "state-exposed",
    severity: "error",
    names: /"\/var\/lib\/cni\/results" can be changed|results/,
    seed: ({ host }) => host.exec("chmod", ["777", "/var/lib/cni/results"]),
  },
  {
    rule: "route-localnet-open",
    severity: "error",
    names: /^route_localnet of "cni0" is 1, but no rule of table ip cni_hostports protects 127\.0\.0\.0\/8$/,
    seed: ({ host }) => host.exec("nft", ["flush chain ip cni_hostports raw"]),
  },
  {
    rule: "table-incomplete",
    how: "published ports",
    severity: "error",
    names: /^chain prerouting of table ip cni_hostports has no rules, but 2 containers need them/,
    seed: ({ host }) => host.exec("nft", ["flush chain ip cni_hostports prerouting"]),
  },
  {
    rule: "table-incomplete",
    how: "masquerade",
    severity: "error",
    names: /^chain postrouting of table ip cni_masquerade has no rules, but 2 containers need them/,
    seed: ({ host }) => host.exec("nft", ["flush chain ip cni_masquerade postrouting"]),
  },
  {
    rule: "missing-masquerade",
    how: "with all rules of the host",
    severity: "error",
    names: /^table ip cni_masquerade does not exist: no masquerade for 2 containers/,
    seed: ({ host }) => host.exec("nft", ["flush ruleset"]),
    besides: ["missing-ports", "route-localnet-open"],
  },
  {
    rule: "bridge-missing",
    how: "of containers with VLANs",
    needs: "vlan_filtering",
    severity: "error",
    names: /^bridge "br5" does not exist, but 2 containers need it/,
    seed: async (lab) => {
      await lab.writeNetwork("20-second.conflist", second({ bridge: "br5", vlan: 5, ...subnet("10.87.0.0/24") }))
      for (const name of ["v1", "v2"]) await lab.addPod(name, "second")
      await lab.host.exec("ip", ["link", "delete", "br5"])
    },
  },
  {
    rule: "gateway-missing",
    how: "of a VLAN",
    needs: "vlan_filtering",
    severity: "error",
    names: /^bridge "br5.5" does not have 10\.87\.0\.1, the gateway of 2 containers/,
    seed: async (lab) => {
      await lab.writeNetwork("20-second.conflist", second({ bridge: "br5", vlan: 5, ...subnet("10.87.0.0/24") }))
      for (const name of ["v1", "v2"]) await lab.addPod(name, "second")
      await lab.host.exec("ip", ["address", "flush", "dev", "br5.5"])
    },
  },
  {
    rule: "ipv6-disabled",
    severity: "error",
    names: /net\/ipv6\/conf\/br6\/disable_ipv6 is 1, and 2 containers/,
    seed: async (lab) => {
      await lab.writeNetwork("20-second.conflist", second({ bridge: "br6", ...subnet("fd00:6::/64") }))
      for (const name of ["v1", "v2"]) await lab.addPod(name, "second")
      await writeSysctl(lab.host, "net/ipv6/conf/br6/disable_ipv6", "1")
    },
  },
  {
    rule: "config-none",
    severity: "error",
    names: /^no network configuration in/,
    seed: ({ confDir }) => rm(`${confDir}/10-pods.conflist`),
    words: /net\.d\/10-pods\.conflist/,
    mend: (lab) => lab.writeNetwork("10-pods.conflist", podsNetwork),
  },
  {
    rule: "plugin-missing",
    severity: "error",
    names: /^plugin "tuning" is not in/,
    seed: async (lab) => {
      const { plugins, ...network } = second(subnet("10.87.0.0/24"))
      await lab.writeNetwork("20-second.conflist", { ...network, plugins: [...plugins, { type: "tuning" }] })
      await lab.useOwnPlugins((directory) => rm(`${directory}/tuning`))
    },
  },
  {
    rule: "plugin-missing",
    how: "all of them",
    severity: "error",
    names: /^3 plugins are not in/,
    seed: (lab) => lab.useOwnPlugins((directory) => rm(directory, { recursive: true })),
  },
  {
    rule: "plugin-not-executable",
    severity: "error",
    names: /bridge" \(mode 644\)/,
    seed: (lab) => lab.useOwnPlugins((directory) => chmod(`${directory}/bridge`, 0o644)),
  },
  {
    rule: "plugin-not-runnable",
    severity: "error",
    names: /bridge" .* cannot be started: ENOEXEC/,
    seed: (lab) => lab.useOwnPlugins((directory) => Bun.write(`${directory}/bridge`, ofAnotherMachine)),
  },
  {
    rule: "plugin-writable",
    severity: "warning",
    names: /bridge" \(mode 777\)/,
    seed: (lab) => lab.useOwnPlugins((directory) => chmod(`${directory}/bridge`, 0o777)),
  },
  {
    rule: "plugin-broken",
    severity: "warning",
    names: /bridge"/,
    seed: (lab) =>
      lab.useOwnPlugins((directory) =>
        Bun.write(`${directory}/bridge`, `#!/bin/sh\n[ -z "$CNI_COMMAND" ] || exec ${builtPlugins}/bridge\n`),
      ),
  },
  {
    rule: "plugins-mixed",
    severity: "warning",
    names: /bridge: reference plugins.*host-local, portmap: cni-plugins v|host-local.*bridge/,
    seed: (lab) => lab.useOwnPlugins((directory) => copyFile("/usr/lib/cni/bridge", `${directory}/bridge`)),
    besides: ["status"],
  },
  {
    rule: "plugin-noexec",
    severity: "error",
    names: /^3 plugins are on ".*", which is mounted with noexec/,
    seed: async (lab) => {
      await lab.useOwnPlugins(async () => {})
      await lab.host.exec("mount", ["--bind", lab.binDir, lab.binDir])
      await lab.host.exec("mount", ["-o", "remount,bind,noexec", lab.binDir])
    },
    words: /^install them elsewhere .* or mount the file system without noexec: findmnt /,
    mend: (lab) => lab.host.exec("mount", ["-o", "remount,bind,exec", lab.binDir]),
  },
]
