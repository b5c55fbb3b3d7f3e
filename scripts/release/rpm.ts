/**
 * Creates the RPM package for a machine by Debian's rpmbuild: `cni-plugins-X.Y.Z-1.x86_64.rpm`. It replaces Fedora's
 * `containernetworking-plugins`, and has the plugins in the same directory, /usr/libexec/cni.
 */
import { copyFileSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { run, type Target } from "../engine.ts"
import { about, place } from "./place.ts"
import { layTree, type Making, type StagedFile } from "./stage.ts"

const layout = {
  plugin: "usr/libexec/cni",
  unit: "usr/lib/systemd/system",
  document: `usr/share/doc/${about.name}`,
  zsh: "usr/share/zsh/site-functions",
} as const

export const rpmMachines: Readonly<Record<Target["name"], string>> = { amd64: "x86_64", arm64: "aarch64" }

export async function makeRpm(target: Target, files: readonly StagedFile[], making: Making): Promise<void> {
  const { directory, age, version = about.packageVersion } = making
  const scratch = mkdtempSync(join(tmpdir(), "cni-rpm-"))
  const machine = rpmMachines[target.name]
  const name = `${about.name}-${version}-1.${machine}.rpm`
  try {
    const content = place(files, layout)
    layTree(join(scratch, "tree"), content, age)
    const spec = specOf(
      version,
      content.map(({ path }) => path),
    )
    writeFileSync(join(scratch, "package.spec"), spec)
    const all = Object.entries({ ...sameEverywhere, _topdir: scratch, tree: join(scratch, "tree") })
    const definitions = all.flatMap(([macro, value]) => ["--define", `${macro} ${value}`])
    const build = ["rpmbuild", "-bb", "--quiet", `--target=${machine}-linux`, ...definitions]
    await run([...build, join(scratch, "package.spec")], { env: { SOURCE_DATE_EPOCH: String(age), HOME: scratch } })
    copyFileSync(join(scratch, "RPMS", machine, name), join(directory, name))
  } finally {
    rmSync(scratch, { recursive: true, force: true })
  }
}

/** Settings that rpmbuild would otherwise derive from the machine and the clock. */
const sameEverywhere = {
  _buildhost: "localhost",
  use_source_date_epoch_as_buildtime: "1",
  clamp_mtime_to_source_date_epoch: "1",
  _binary_payload: "w6.xzdio",
  _build_id_links: "none",
  __os_install_post: "%{nil}",
  debug_package: "%{nil}",
  optflags: "%{nil}",
} as const

function specOf(version: string, paths: readonly string[]): string {
  return `Name: ${about.name}
Version: ${version}
Release: 1
Summary: ${about.summary}
License: ${about.licence}
Packager: ${about.maintainer}
AutoReqProv: no
Provides: ${about.replaces} = ${about.replacedVersion}
Conflicts: ${about.replaces}

%description
${about.description.map((paragraph) => paragraph.replace(/(.{1,79})(?: |$)/g, "$1\n")).join("\n")}
%install
cp -a %{tree}/. %{buildroot}/

%files
${paths.map((path) => `${attributeOf(path)}/${path}`).join("\n")}

%post
if [ -d /run/systemd/system ]; then systemctl daemon-reload || :; fi

%preun
if [ "$1" = 0 ] && [ -d /run/systemd/system ]; then systemctl stop cni-dhcp.service cni-dhcp.socket cni-reconcile.service cni-gc.timer cni-metrics.timer || :; fi

%postun
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload || :
  if [ "$1" -ge 1 ]; then systemctl try-restart cni-dhcp.service cni-reconcile.service || :; fi
fi
`
}

const attributeOf = (path: string) => {
  const owner = "%attr(-, root, root) "
  if (/\/(LICENSE|NOTICE)$/.test(path)) return `${owner}%license `
  return path.startsWith(layout.document) ? `${owner}%doc ` : owner
}
