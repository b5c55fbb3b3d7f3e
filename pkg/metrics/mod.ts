/**
 * Metrics in Prometheus' text format.
 *
 * @example
 * printFamilies([{ name: "cni_orphans", type: "gauge", help: "What was left.", samples: [{ labels: {}, value: 0 }] }])
 */
export { type Family, printFamilies, type Sample } from "./exposition.ts"
