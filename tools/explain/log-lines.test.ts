import { describe, expect, test } from "bun:test"
import { explain, explainLog } from "./explain.ts"
import { knownMessages } from "./known.ts"

const known = knownMessages()

/** Log lines that users have posted, shortened, with a part of the expected remedy or cause. */
const lines: readonly (readonly [line: string, answer: RegExp])[] = [
  // bridges, veths and MACs
  ['could not add "cni0": operation not supported', /modprobe bridge/],
  ['could not add "cni-podman0": operation not supported', /install the plugins again/],
  ["failed to setup network: could not set bridge's mac: invalid argument", /repeat the ADD; install newer plugins/],
  [`Interface veth8a2b Mac doesn't match: 0a:58:0a:2a:00:05 not found`, /MACAddressPolicy=none/],
  ['failed to set "net1" address to "e7:0a:00:00:00:01": cannot assign requested address', /first byte is even/],
  ["failed to create macvlan: cannot assign requested address", /first byte is even/],
  ['could not add "nerdctl0": operation not permitted', /run the runtime as root/],
  [
    "iptables v1.8.7: can't initialize iptables table `nat': Table does not exist (do you need to insmod?)",
    /load the module on the host/,
  ],
  ["failed to create vlan: file exists", /one container of the network on a node/],
  [`failed to add route '{0.0.0.0/0 via 10.9.0.1 dev net1}': network is unreachable`, /correct gateway or routes/],
  [
    'time="2026-11-23" level=info msg="[ns/pod:cbr0]: error adding container to network \\"cbr0\\": must be called as chained plugin"',
    /name the network of the cluster/,
  ],

  // missing or old plugins
  ['failed to find plugin "bridge" in path [/opt/cni/bin]', /cni install/],
  ['failed to find plugin "portmap" in path [/opt/cni/bin /usr/lib/cni]', /cni install/],
  ['needs CNI plugin "bridge" to be installed in CNI_PATH ("/opt/cni/bin"), see', /install the plugins into CNI_PATH/],
  ['error in invoke Delegate add - "bridge": no plugin name provided', /replace the old plugin/],
  ['cannot load bin: Delegate add - "macvlan": missing network name', /use letters, digits/],
  ['unsupported CNI result version "1.1.0"', /plugins of similar versions/],
  ["netplugin failed with no error message: signal: killed", /raise the limit/],
  [
    'error adding pod web to CNI network "podman": unexpected end of JSON input',
    /install the plugins that the list names/,
  ],
  ["invalid CIDR address: null/32", /answered without one/],
  ["failed to configure network: no interface with an address", /answered without one/],

  // runtimes
  ["no network config found in /etc/cni/net.d: cni plugin not initialized", /restart containerd/],
  ["Network plugin returns error: cni plugin not initialized", /restart containerd/],
  ["container runtime network not ready: cni config uninitialized", /which write the configuration/],
  [
    "NetworkReady=false reason:NetworkPluginNotReady message:docker: network plugin is not ready: cni config uninitialized",
    /NotReady|which write the configuration/,
  ],
  ["GetCNIConfigFromFile: No networks found in /host/etc/cni/net.d", /mounts of Multus' pod/],
  ["No networks found in /host/etc/cni/net.d", /mounts of Multus' pod/],
  ["validateIfName: no networks found in /etc/cni/net.d", /check the add-on's pods/],
  ['Error while adding pod to CNI network "k8s-pod-network": namespaces "podman" not found', /choose another network/],
  ['error opening "/etc/cni/net.d/cni.lock": permission denied', /network_config_dir/],
  ["Error: mkdir /var/run/netns: permission denied", /run podman as root/],
  [
    "failed to add the address 10.4.0.2/32 to trusted zone: Not Authorized(uid): org.fedoraproject.FirewallD1.config",
    /iptables/,
  ],
  ["Not Authorized(uid): org.fedoraproject.FirewallD1.config.zone", /iptables/],

  // the packet filter
  [
    "running [/usr/sbin/iptables -t nat -N CNI-HOSTPORT-SETMARK --wait]: exit status 1: iptables: Chain already exists.",
    /repeat/,
  ],
  [
    "iptables v1.8.7 (nf_tables): Couldn't load match `comment':No such file or directory",
    /xt_comment|iptables-legacy/,
  ],
  ["iptables v1.8.1 (nf_tables):  RULE_INSERT failed (Invalid argument): rule in chain POSTROUTING", /iptables-legacy/],
  ["iptables v1.8.2 (nf_tables):  RULE_APPEND failed (Invalid argument): rule in chain CNI-123", /iptables-legacy/],
  ["iptables v1.8.9 (nf_tables): table `nat' is incompatible, use 'nft' tool.", /keep `?nft`? out of these tables/],

  // the kernel and services
  ["neighbour: arp_cache: neighbor table overflow!", /gc_thresh3/],
  [
    "kernel: cni0: received packet on veth1 with own address as source address (addr:0a:58:0a:2a:00:01, vlan:0)",
    /own MAC/,
  ],
  ["unregister_netdevice: waiting for veth1 to become free. Usage count = 1", /restart the node/],
  ['Get "https://10.96.0.1:443/api?timeout=32s": dial tcp 10.96.0.1:443: connect: no route to host', /kube-proxy/],
  ["dial tcp 10.43.0.1:443: i/o timeout", /kube-proxy/],
  ["lookup kube.example on 127.0.0.53:53: server misbehaving", /resolvConf/],
  [
    'Readiness probe failed: Get "http://10.1.0.9:80/": context deadline exceeded (Client.Timeout exceeded)',
    /No plugin was called/,
  ],

  [
    "Liveness probe failed: Get http://10.1.0.9:80/: request canceled (Client.Timeout exceeded while awaiting headers)",
    /No plugin was called/,
  ],
  ["Readiness probe failed: dial tcp 10.1.0.9:80: connect: connection refused", /no program listens/],

  // addresses
  ["failed to allocate for range 0: no IP addresses available in range set: 10.42.0.1-10.42.0.254", /cni gc/],
  [
    "Could not allocate IP in range: ip: 192.168.205.10 / - 192.168.205.20 / range: 192.168.205.0/24 / excludeRanges: [192.168.205.1/24]",
    /as \/32 or \/128/,
  ],
  ["no IP ranges specified", /with kube-router check the pod of the agent/],
  ['level=warning msg="Link \\"net1\\" down. Attempting to set up"', /Harmless|nothing/],

  // other suites
  ["error getting ClusterInformation: connection is unauthorized: Unauthorized", /restart calico-node/],
  [
    "error getting ClusterInformation: connection is unauthorized: clusterinformations.crd is forbidden",
    /restart calico-node/,
  ],
  ['plugin type="calico" failed (add): cannot find a qualified ippool', /nodeSelector/],
  ["open /run/flannel/subnet.env: no such file or directory", /check the pod and the log of flanneld/],
  [
    "unable to connect to Cilium daemon: failed to create cilium agent client after 30.000000 seconds timeout",
    /Cilium|the pod and the log/,
  ],
  ["unable to connect to Cilium agent: failed to create cilium agent client", /the pod and the log/],
  ['plugin type="cilium-cni" failed (add): Unable to create endpoint: Cilium API client timeout exceeded', /more CPU/],
  ["add cmd: failed to assign an IP address to container", /larger subnet/],
  ["LoadConf(): VF pci addr is required", /resourceName|annotation/],
  [
    "failed to get VF information: lstat /sys/bus/pci/devices/0000:3b:02.0/physfn/net: no such file or directory",
    /host-device/,
  ],
  ["lstat /sys/bus/pci/devices/0000:3b:02.0/physfn/net: no such file or directory", /host-device/],
  [
    "failed to get pod annotation: timed out waiting for annotations: context deadline exceeded",
    /log of the controller/,
  ],
  ["timed out waiting for OVS port binding (ovn-installed) for 0a:58:0a:80:02:0b [10.128.2.11/23]", /ovn-controller/],
  [
    "IPAM Invoker Add failed with error: AllocateIPConfig failed: not enough IPs available for uuid of Azure CNS",
    /larger subnet/,
  ],
  ["Failed to allocate address: No available address pools", /larger subnet/],
  [
    "Failed to start IPAM plugin, err:invalid character '\\x00' looking for beginning of value.",
    /azure-vnet-ipam.json/,
  ],
  [
    "unable to allocate IP address: Post http://127.0.0.1:6784/ip/9a: dial tcp 127.0.0.1:6784: connect: connection refused",
    /the pod and the log/,
  ],
  [
    "Multus: [ns/pod]: error getting k8s: cannot find a network-attachment-definition (lan) in namespace (default): not found",
    /NAMESPACE\/NAME/,
  ],
]

/** The text that runtimes add around a message. */
const around: Readonly<Record<string, (message: string) => string>> = {
  alone: (message) => message,
  "of containerd": (message) =>
    `E1123 10:00:00.1 812 pod_workers.go:1301] "Error syncing pod" err=${JSON.stringify(`failed to setup network for sandbox "4e5f": ${message}`)} pod="default/web"`,
  "of CRI-O": (message) =>
    `Failed to create pod sandbox: rpc error: code = Unknown desc = error adding pod web to CNI network "k8s": ${message}`,
}

describe.each(Object.entries(around))("a line %s", (_, write) => {
  test.each(lines.map(([line, answer]): [string, RegExp] => [line, answer]))("%s", (line, answer) => {
    const [best] = explain(write(line), known).known
    expect(`${best?.what}; ${best?.remedy}`).toMatch(answer)
  })
})

test.each<[line: string, plugin: string, look: RegExp]>([
  ['plugin type="calico" failed (add): Cannot find the node resource', "calico", /cni\.log/],
  ['plugin type="calico" failed (add): Get "https://x": context deadline exceeded', "calico", /cni\.log/],
  ['plugin type="aws-cni" name="aws-cni" failed (add): something new', "aws-cni", /aws-routed-eni/],
  ['plugin type=\\"azure-vnet\\" failed (delete): Cannot open the state', "azure-vnet", /azure-vnet\.log/],
  ['plugin type="house-made" failed (add): operation not supported', "house-made", /journalctl/],
  ['plugin type="bridge" failed (add): something new', "bridge", /journalctl/],
  ['[a/b:c]: error adding container to network "c": Delegate add - "sriov": something new', "sriov", /kubectl/],
])("an unknown message names the plugin and its log: %s", (message, plugin, look) => {
  for (const line of [message, `failed to setup network for sandbox "4e": ${message}`]) {
    const explained = [explain(line, known), ...explainLog(line)]
    expect(explained).toHaveLength(2)
    for (const { error, known } of explained) {
      expect(error.plugin).toBe(plugin)
      expect(known[0]?.what).toStartWith(`the message is unknown. The plugin "${plugin}"`)
      expect(known[0]?.looks.join("; ")).toMatch(look)
    }
  }
})

test.each([
  'Failed to pull image "nginx": rpc error: code = DeadlineExceeded desc = context deadline exceeded',
  'failed to pull and unpack image "docker.io/library/nginx": failed to resolve reference: context deadline exceeded',
  'Failed to pull image "nginx": failed to do request: Head "https://registry-1.example/v2": dial tcp 192.0.2.1:443: i/o timeout',
  'Failed to pull image "nginx": dial tcp: lookup registry-1.example on 127.0.0.53:53: server misbehaving',
  'kubelet: Cannot find container "web" in the pod',
  "etcdserver: request timed out: context deadline exceeded",
  "nginx: [emerg] listen tcp 0.0.0.0:80: bind: address already in use",
  "node app.js: SyntaxError: unexpected end of JSON input",
  "mount: /mnt: operation not supported",
  'Cannot find device "eth7"',
  'MountVolume.SetUp failed for volume "pvc": rpc error: code = DeadlineExceeded desc = context deadline exceeded',
])("a line without a sign of a container network has no answer: %s", (line) => {
  expect(explain(line, known).known).toEqual([])
  expect(explainLog(line)).toEqual([])
})

test("the pause image is no matter of a plugin", () => {
  const line =
    'Failed to create pod sandbox: failed to get sandbox image "pause:3.9": failed to pull image: context deadline exceeded'
  expect(explain(line, known).known.map(({ remedy }) => remedy)).toEqual([
    "pull the image, or configure one that the node has",
  ])
})

test("words of any program answer for a container network", () => {
  const remedies = (line: string) => explain(line, known).known.map(({ remedy }) => remedy)
  expect(remedies('plugin type="macvlan" failed (add): x: device or resource busy')).toEqual([
    "use one kind for each master",
  ])
  expect(remedies("context deadline exceeded")).toHaveLength(1)
  expect(remedies('failed to setup network for sandbox "4e": x: context deadline exceeded')).toHaveLength(1)
})
