import { expect, test } from "bun:test"
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { knownBinDir, runtimePlaces } from "./paths.ts"

function rootWith(files: Record<string, string>) {
  const root = mkdtempSync(join(tmpdir(), "install-paths-"))
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(root, path)), { recursive: true })
    writeFileSync(join(root, path), text)
  }
  return { root, [Symbol.dispose]: () => rmSync(root, { recursive: true }) }
}

test.each<[string, Record<string, string>, object[]]>([
  ["a node without a runtime", {}, []],
  [
    "a configuration that names no directories",
    { "/etc/containerd/config.toml": "version = 2\ndisabled_plugins = []\n" },
    [],
  ],
  [
    'containerd 1.7, as "containerd config default" prints it',
    {
      "/etc/containerd/config.toml": `version = 2
[plugins]
  [plugins."io.containerd.grpc.v1.cri"]
    sandbox_image = "registry.k8s.io/pause:3.8"
    [plugins."io.containerd.grpc.v1.cri".cni]
      bin_dir = "/usr/lib/cni"
      conf_dir = "/etc/cni/net.d"
      conf_template = ""
    [plugins."io.containerd.grpc.v1.cri".containerd]
      bin_dir = "/not/this"
`,
    },
    [{ binDirs: ["/usr/lib/cni"], confDir: "/etc/cni/net.d", file: "/etc/containerd/config.toml" }],
  ],
  [
    "containerd 2.1, with a list, and a file that overrides it",
    {
      "/etc/containerd/config.toml": `version = 3
[plugins.'io.containerd.cri.v1.runtime'.cni]
  bin_dir = ''
  bin_dirs = ['/opt/cni/bin', '/usr/lib/cni'] # in this order
  conf_dir = '/etc/cni/net.d'
`,
      "/etc/containerd/conf.d/10-cni.toml": "[plugins.'io.containerd.cri.v1.runtime'.cni]\nbin_dirs = ['/srv/cni/']\n",
    },
    [{ binDirs: ["/srv/cni"], confDir: "/etc/cni/net.d", file: "/etc/containerd/conf.d/10-cni.toml" }],
  ],
  [
    "CRI-O, whose list has several lines, beside k3s",
    {
      "/etc/crio/crio.conf.d/00-network.conf": `[crio.network]
# plugin_dirs = ["/commented"]
network_dir = "/etc/cni/net.d/"
plugin_dirs = [
	"/opt/cni/bin/",
	"/usr/libexec/cni",
]
`,
      "/var/lib/rancher/k3s/agent/etc/containerd/config.toml": `[plugins.'io.containerd.cri.v1.runtime'.cni]
  bin_dirs = ["/var/lib/rancher/k3s/data/cni"]
  conf_dir = "/var/lib/rancher/k3s/agent/etc/cni/net.d"
`,
    },
    [
      {
        binDirs: ["/var/lib/rancher/k3s/data/cni"],
        confDir: "/var/lib/rancher/k3s/agent/etc/cni/net.d",
        file: "/var/lib/rancher/k3s/agent/etc/containerd/config.toml",
      },
      {
        binDirs: ["/opt/cni/bin", "/usr/libexec/cni"],
        confDir: "/etc/cni/net.d",
        file: "/etc/crio/crio.conf.d/00-network.conf",
      },
    ],
  ],
  [
    "containerd, whose configuration names the directory of configurations alone",
    { "/etc/containerd/config.toml": '[plugins."io.containerd.grpc.v1.cri".cni]\nconf_dir = "/srv/net.d"\n' },
    [{ binDirs: [], confDir: "/srv/net.d", file: "/etc/containerd/config.toml" }],
  ],
  [
    "RKE2",
    {
      "/var/lib/rancher/rke2/agent/etc/containerd/config.toml": `version = 3
[plugins.'io.containerd.cri.v1.runtime'.cni]
  bin_dirs = ["/opt/cni/bin"]
  conf_dir = "/etc/cni/net.d"
`,
    },
    [
      {
        binDirs: ["/opt/cni/bin"],
        confDir: "/etc/cni/net.d",
        file: "/var/lib/rancher/rke2/agent/etc/containerd/config.toml",
      },
    ],
  ],
])("the directories of %s", (_, files, expected) => {
  using at = rootWith(files)
  expect(runtimePlaces(at.root)).toEqual(expected as never)
})

test("without a runtime's word a directory that is there counts", () => {
  using none = rootWith({})
  expect(knownBinDir(none.root)).toBeUndefined()
  using debian = rootWith({ "/usr/lib/cni/bridge": "" })
  expect(knownBinDir(debian.root)).toBe("/usr/lib/cni")
})
