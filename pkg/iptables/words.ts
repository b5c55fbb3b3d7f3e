/**
 * A word as `iptables-restore` reads it: in double quotes where it has other than plain characters, with a backslash
 * before quotes and backslashes. Throws `RangeError` for an empty word and for line ends, which would begin a new line.
 */
export function quoteWord(word: string): string {
  if (word === "" || /[\0\r\n]/.test(word)) throw new RangeError(`${JSON.stringify(word)} cannot be part of a rule`)
  return /^[\w!#%+,./:=@-]+$/.test(word) ? word : `"${word.replace(/["\\]/g, "\\$&")}"`
}

/** The words of a line that `iptables-save` has written. */
export function splitWords(line: string): string[] {
  const words: string[] = []
  let word = ""
  let isQuoted = false
  for (let at = 0; at < line.length; at++) {
    const character = line[at] ?? ""
    if (character === '"') isQuoted = !isQuoted
    else if (isQuoted && character === "\\") word += line[++at] ?? ""
    else if (isQuoted || character !== " ") word += character
    else if (word !== "") {
      words.push(word)
      word = ""
    }
  }
  return word === "" ? words : [...words, word]
}
