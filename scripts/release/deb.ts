/**
 * Creates the Debian package for a machine by Debian's dpkg-deb: `cni-plugins_X.Y.Z-1_amd64.deb`.
 *
 * It replaces Debian's `containernetworking-plugins`. The plugins are in /usr/lib/cni, where Debian's podman and
 * containerd search, and the units of the dhcp daemon keep their names. Installing it asks no questions, and creates no
 * links in /opt/cni/bin.
 */
import { createHash } from "node:crypto"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { run, type Target } from "../engine.ts"
import { about, compress, place, textFile } from "./place.ts"
import { layTree, type Making, type PlacedFile, type StagedFile } from "./stage.ts"

const layout = {
  plugin: "usr/lib/cni",
  unit: "usr/lib/systemd/system",
  document: `usr/share/doc/${about.name}`,
  zsh: "usr/share/zsh/vendor-completions",
} as const

export async function makeDeb(target: Target, files: readonly StagedFile[], making: Making): Promise<void> {
  const { directory, age } = making
  const version = `${making.version ?? about.packageVersion}-1`
  const scratch = mkdtempSync(join(tmpdir(), "cni-deb-"))
  const made = join(directory, `${about.name}_${version}_${target.name}.deb`)
  try {
    const content = place(files, layout).flatMap((file) => asDebianHasIt(file, files, debianChangelog(version, age)))
    const all = [...content, overrides]
    layTree(scratch, [...all, ...control(target, version, all)], age)
    // One thread, because with more the machine determines where xz divides the data into blocks.
    const plain = ["--root-owner-group", "--uniform-compression", "--threads-max=1", "-Zxz"]
    await run(["dpkg-deb", ...plain, "--build", scratch, made], { env: { SOURCE_DATE_EPOCH: String(age) } })
  } finally {
    rmSync(scratch, { recursive: true, force: true })
  }
}

/**
 * Returns a file in Debian's form. Changelogs are compressed. The license file refers to Debian's copy of the license,
 * and contains the licenses of the parts.
 */
function asDebianHasIt(file: PlacedFile, files: readonly StagedFile[], changelog: string): PlacedFile[] {
  const at = (name: string) => `${layout.document}/${name}`
  if (file.path === at("NOTICE")) return []
  if (file.path === at("LICENSE")) return [textFile(at("copyright"), copyright(files))]
  if (file.path !== at("CHANGELOG.md")) return [file]
  return [textFile(at("changelog.gz"), compress(file.bytes)), textFile(at("changelog.Debian.gz"), compress(changelog))]
}

function debianChangelog(version: string, age: number): string {
  const date = new Date(age * 1000).toUTCString().replace("GMT", "+0000")
  return `${about.name} (${version}) unstable; urgency=medium\n\n  * Release ${about.version}; changelog.gz says what has changed.\n\n -- ${about.maintainer}  ${date}\n`
}

function copyright(files: readonly StagedFile[]): string {
  const notice = files.find(({ kind, name }) => kind === "document" && name === "NOTICE")
  return `${about.name}: Container Network Interface plugins
Copyright: the authors of ${about.name}

Licensed under the Apache License, Version 2.0. On Debian systems its text is in
"/usr/share/common-licenses/Apache-2.0".

${Buffer.from(notice?.bytes ?? []).toString()}`
}

/** Lintian's false positives. */
const overrides = textFile(
  `usr/share/lintian/overrides/${about.name}`,
  `# A plugin runs on every node, with any C library or without one.
${about.name}: statically-linked-binary
# The files of ${about.replaces}, which it has in /lib: see the scripts.
${about.name}: diversion-for-unknown-file
`,
)

function control(target: Target, version: string, files: readonly PlacedFile[]): PlacedFile[] {
  const directories = new Set(
    files.flatMap(({ path }) => path.split("/").map((_, at, parts) => parts.slice(0, at).join("/"))),
  )
  const kilobytes = files.reduce((sum, { bytes }) => sum + Math.ceil(bytes.length / 1024), directories.size)
  const md5 = (bytes: Uint8Array) => createHash("md5").update(bytes).digest("hex")
  const sums = files
    .map(({ path, bytes }) => `${md5(bytes)}  ${path}\n`)
    .sort((a, b) => (a.slice(34) < b.slice(34) ? -1 : 1))
  const fields = `Package: ${about.name}
Version: ${version}
Architecture: ${target.name}
Multi-Arch: foreign
Maintainer: ${about.maintainer}
Installed-Size: ${kilobytes}
Provides: ${about.replaces} (= ${about.replacedVersion}), container-network-stack (= 1)
Conflicts: ${about.replaces}
Replaces: ${about.replaces}
Suggests: containerd | podman
Section: net
Priority: optional
Description: ${about.summary}
${about.description.map(folded).join("\n .\n")}
`
  const scripts = Object.entries(maintainerScripts).map(([name, script]) => {
    return { path: `DEBIAN/${name}`, mode: 0o755, bytes: Buffer.from(`#!/bin/sh\nset -e\n${script}`) }
  })
  return [textFile("DEBIAN/control", fields), textFile("DEBIAN/md5sums", sums.join("")), ...scripts]
}

/** Wraps a paragraph of a description to lines of at most 79 characters, each after a space. */
function folded(paragraph: string): string {
  return paragraph.replace(/(.{1,78})(?: |$)/g, " $1\n").trimEnd()
}

const unitNames = ["cni-dhcp.service", "cni-dhcp.socket"]
/** The units that the package installs without enabling them. */
const otherUnits = ["cni-reconcile.service", "cni-gc.timer", "cni-metrics.timer"]

/**
 * Returns the commands that divert the old package's units during its removal. Debian 12's package of the reference
 * plugins has them in /lib/systemd/system, which is the same directory as our /usr/lib/systemd/system. dpkg removes the
 * old package after it has installed our files, and would otherwise delete ours.
 */
const divert = (how: "--add" | "--remove") =>
  unitNames.map((name) => {
    const [file, options] = [`/lib/systemd/system/${name}`, `--package ${about.name} --no-rename`]
    return `  dpkg-divert ${options} --divert ${file}.usr-is-merged ${how} ${file} >/dev/null\n`
  })

const withSystemd = (action: string, then: string) =>
  `if [ "$1" = ${action} ] && [ -z "\${DPKG_ROOT:-}" ] && [ -d /run/systemd/system ]; then\n${then}fi\n`
const reload = "  systemctl --system daemon-reload || true\n"

/** The scripts that dpkg runs: an upgrade restarts a running daemon, and a removal stops it. Leases are on disk. */
const maintainerScripts = {
  preinst: `if [ "$1" = install ]; then\n${divert("--add").join("")}fi\n`,
  postinst:
    `if [ "$1" = configure ]; then\n${divert("--remove").join("")}fi\n` +
    withSystemd(
      "configure",
      `${reload}  deb-systemd-invoke try-restart cni-dhcp.service cni-reconcile.service || true\n`,
    ),
  prerm: withSystemd("remove", `  deb-systemd-invoke stop ${[...unitNames, ...otherUnits].join(" ")} || true\n`),
  postrm: `if [ "$1" = abort-install ]; then\n${divert("--remove").join("")}fi\n${withSystemd("remove", reload)}`,
} as const
