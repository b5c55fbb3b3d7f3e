/**
 * A time limit for this machine: `ms` as many times as `CNI_TEST_PATIENCE` says. An emulated machine is 20 times slower
 * than a real one; without the variable a limit stays what it is.
 */
export function patient(ms: number): number {
  return ms * (Number(process.env.CNI_TEST_PATIENCE) || 1)
}
