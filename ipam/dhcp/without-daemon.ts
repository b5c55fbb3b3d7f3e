import { CniError, Code } from "../../pkg/types/mod.ts"
import { parseOptions } from "./daemon/options.ts"
import { Service } from "./daemon/service.ts"
import { surroundingsOf } from "./daemon/surroundings.ts"

/**
 * Does with the leases in the journal what no daemon is there to do. Returns false when there is no journal. Throws code 11 when a
 * daemon has it, which is just starting, or listens elsewhere.
 */
export function actOnJournal(log: (line: string) => void, act: (service: Service) => void): boolean {
  const around = surroundingsOf(parseOptions([]), log)
  const { journal } = around
  if (!journal.exists) return false
  using lock = journal.tryLock()
  if (!lock) {
    throw new CniError(Code.TryAgainLater, `Cannot use the leases in "${journal.directory}": a daemon has them`, {
      details: 'it is starting, or listens on another socket than "ipam.daemonSocketPath"',
    })
  }
  const service = new Service(around)
  service.resume()
  act(service)
  return true
}
