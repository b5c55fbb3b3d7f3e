/** A metric with its samples, <https://prometheus.io/docs/instrumenting/exposition_formats/>. */
export interface Family {
  readonly name: string
  readonly type: "gauge" | "counter" | "histogram"
  readonly help: string
  readonly samples: readonly Sample[]
}

export interface Sample {
  /** The suffix of the metric's name, such as "_bucket". */
  readonly suffix?: string
  readonly labels: Readonly<Record<string, string>>
  /** The value, as a text if a number cannot represent it. */
  readonly value: number | string
}

/** Formats metrics. Omits a metric without samples. */
export function printFamilies(families: readonly Family[]): string {
  return families.map(printFamily).join("")
}

function printFamily({ name, type, help, samples }: Family): string {
  const lines = samples.map(({ suffix = "", labels, value }) => `${name}${suffix}${printLabels(labels)} ${value}\n`)
  return lines.length === 0 ? "" : `# HELP ${name} ${help}\n# TYPE ${name} ${type}\n${lines.join("")}`
}

function printLabels(labels: Sample["labels"]): string {
  const pairs = Object.entries(labels).map(
    ([key, text]) => `${key}="${text.replace(/["\\]/g, "\\$&").replaceAll("\n", "\\n")}"`,
  )
  return pairs.length > 0 ? `{${pairs.join(",")}}` : ""
}
