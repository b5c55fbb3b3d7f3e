import { findStat, isDirectory, unlessErrno } from "../../pkg/libc/mod.ts"
import type { Runtime } from "../../pkg/libcni/mod.ts"
import { namesOfFiles } from "../node/mod.ts"
import { checkChain } from "./chain.ts"
import { besideNetwork, checkDirectory, readSourceFile, sourcesIn } from "./directory.ts"
import { type Finding, Findings, type Source } from "./findings.ts"
import { readLintNetwork } from "./network.ts"
import {
  checkAdvertisedRoutes,
  checkInstalled,
  checkNode,
  checkNodeRoutes,
  checkServiceRanges,
  readNodeRoutes,
  serviceRangesOf,
} from "./node.ts"
import { checkBetweenNetworks, checkRanges } from "./ranges.ts"

/** What lint compares the files with. */
export interface LintOptions {
  /** This node, whose interfaces, routes and installed plugins are checked. Undefined to check only the files. */
  readonly node?: Runtime | undefined
  /** The ranges of service addresses, such as "10.96.0.0/12". */
  readonly serviceRanges: readonly string[]
}

export interface LintReport {
  readonly findings: readonly Finding[]
  readonly sources: readonly Source[]
}

/** Checks a file or a directory's files, with plugins in directories beside them. Throws if `path` does not exist. */
export async function lint(path: string, { node, serviceRanges }: LintOptions): Promise<LintReport> {
  const findings = new Findings()
  const nameOf = namesOfFiles(node?.path ?? [])
  const isWhole = isDirectoryAt(path)
  const sources = isWhole ? sourcesIn(path) : readSourceFile(path)
  const all = [...sources]
  const networks = sources.flatMap((source) => {
    const beside = (name: string) => {
      const found = besideNetwork(source.file, name)
      all.push(...found)
      return found
    }
    return readLintNetwork(source, findings, beside, nameOf) ?? []
  })
  for (const network of networks) checkChain(network, findings)
  const ranges = networks.flatMap((network) => checkRanges(network, findings))
  checkBetweenNetworks(ranges, findings)
  checkServiceRanges(ranges, node === undefined ? serviceRanges : [...serviceRanges, ...serviceRangesOf()], findings)
  if (isWhole) checkDirectory(path, networks, findings)
  if (node !== undefined) {
    for (const network of networks) checkNode(network, findings)
    checkNodeRoutes(ranges, readNodeRoutes(), findings)
    checkAdvertisedRoutes(ranges, findings)
    await checkInstalled(node, networks, findings)
  }
  return { findings: findings.sorted(), sources: all }
}

function isDirectoryAt(path: string): boolean {
  const found = unlessErrno(() => findStat(path), "ENOTDIR")
  if (found === undefined) throw new Error(`Cannot check "${path}": it does not exist`)
  return isDirectory(found)
}
