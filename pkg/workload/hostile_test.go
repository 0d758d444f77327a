package workload

import (
	"fmt"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// fill repeats a unit up to a size in bytes.
func fill(unit string, size int) string { return strings.Repeat(unit, size/len(unit)) }

// documents fills a file with documents of the largest size, each begun by head and filled with unit.
func documents(head, unit string) string {
	one := head + fill(unit, MaxDocumentSize-len(head)-8) + "\n"
	return fill("---\n"+one, MaxFileSize-16)
}

// hostile are files of the largest size, made to cost much.
var hostile = map[string]string{
	"quotes that are never closed":               documents("kind: training\njob: {name: a}\n", "a: \"\n"),
	"a quote before hundreds of long lines":      documents("a: \"\n", " "+strings.Repeat("x", 420)+"\n"),
	"a bracket before hundreds of long lines":    documents("a: [\n", " "+strings.Repeat("x, ", 140)+"\n"),
	"one quote that is never closed":             documents("kind: \"", "a\n"),
	"open brackets on lines":                     documents("a: [", "x,\n"),
	"brackets in brackets":                       documents("", "["),
	"braces in braces":                           documents("", "{a: "),
	"explicit keys in each other":                documents("", "? "),
	"lists in lists on one line":                 documents("", "- "),
	"a section in a section, each deeper":        documents("", nested()),
	"lines that fit no other":                    documents("a:\n", "  b\n c: d\n"),
	"keys that nobody knows":                     documents("kind: training\n", "kinx: 1\n"),
	"different keys that nobody knows":           documents("kind: training\n", unknownKeys()),
	"unknown keys on one line":                   documents("{kind: training, ", "resourcen: 1, ") + "}",
	"variables without end":                      documents("kind: training\njob: {name: a}\nenvironment:\n  env:\n", "  - {name: a, value: b}\n"),
	"anchors that nobody uses":                   documents("a: [", "&a x, "),
	"aliases of nothing":                         documents("a: [", "*a, "),
	"a directive and markers":                    "%a\n" + fill("---\n", MaxFileSize-8),
	"directives and markers":                     fill("%a\n---\n", MaxFileSize-8),
	"markers with text":                          fill("--- a\n", MaxFileSize-8),
	"ends of documents":                          fill("...\n", MaxFileSize-8),
	"comments":                                   documents("kind: training\n", "# a\n"),
	"comments behind values":                     documents("kind: training\na:\n", "  - b # c\n"),
	"comments between values":                    documents("a:\n", "# c\n- b\n"),
	"a block of text with empty lines":           documents("a: |\n", "\n"),
	"a folded block of text":                     documents("a: >\n", "  b\n\n"),
	"tabs":                                       documents("a:\n", "\tb: c\n"),
	"characters that cannot begin a value":       documents("", "a: @b\n"),
	"line breaks that only YAML 1.1 knows":       documents("kind: training\n", "\u2028"),
	"letters that take three bytes":              documents("kind: 训练", "练"),
	"escapes":                                    documents("a: \"", `\x41`) + "\"",
	"tags":                                       documents("a: [", "!!int 1, "),
	"merge keys":                                 documents("", "<<: {}\n"),
	"numbers of a million digits":                documents("kind: training\nresources: {gpu: ", "9") + "}",
	"a thousand documents of a missing kind":     fill("---\na: \"b\n", 8000),
	"a name as long as a document":               documents("kind: training\njob: {name: ", "a-") + "}",
	"an amount of memory as long as a document":  documents("kind: training\nresources: {memory: ", "1") + "Gi}",
	"an image as long as a document":             documents("kind: training\nenvironment: {image: ", "a/") + "}",
	"a pool of nodes that are one node":          documents("kind: pool\npool: {name: p}\nnodes: [", "n, "),
	"a quota of namespaces that are one":         documents("kind: quota\nquota: {name: q}\nnamespace: [", "{name: a, gpu: 1}, "),
	"workdirs that are one":                      documents("kind: training\nstorage: {workdirs: [", "{path: /a}, "),
	"volumes of names that differ":               documents("kind: training\nstorage:\n", volumes()),
	"quotes in the keys of a section in a list":  documents("a:\n", "- \"b\": c\n  'd: e\n"),
	"brackets that close what nobody opened":     documents("a: 1\n", "]\n"),
	"an indented key after each end of a string": documents("a: 'b'\n", "  c: 'd'\n"),
}

func nested() string {
	var b strings.Builder
	for i := range 480 {
		fmt.Fprintf(&b, "%sa:\n", strings.Repeat(" ", i))
	}
	return b.String()
}

func unknownKeys() string {
	var b strings.Builder
	for i := range 8000 {
		fmt.Fprintf(&b, "resourcen%d: 1\n", i)
	}
	return b.String()[:100_000]
}

func volumes() string {
	var b strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&b, "  v%d: {path: /a, mount-path: /a}\n", i)
	}
	return b.String()[:100_000]
}

// processorTime is what this process has used so far, which other processes on the machine do not change.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		t.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// Bounds of what one file may cost. The race detector makes everything several times as dear.
const (
	mostTime   = raceFactor * 2 * time.Second
	mostMemory = 384 << 20
)

// TestNoFileCostsMuchTime reads the largest files that are made to be slow, in the time of a few ordinary ones.
func TestNoFileCostsMuchTime(t *testing.T) {
	for name, text := range hostile {
		t.Run(name, func(t *testing.T) {
			if len(text) > MaxFileSize {
				text = text[:MaxFileSize]
			}
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			began := processorTime(t)
			_, diagnostics := Parse("t", []byte(text))
			took := processorTime(t) - began
			runtime.ReadMemStats(&after)
			allocated := after.TotalAlloc - before.TotalAlloc
			t.Logf("%v, %d MiB, %d diagnostics", took.Round(time.Millisecond), allocated>>20, len(diagnostics))
			if took > mostTime {
				t.Errorf("it took %v of a processor, want at most %v", took, mostTime)
			}
			if allocated > mostMemory {
				t.Errorf("it allocated %d MiB, want at most %d", allocated>>20, mostMemory>>20)
			}
		})
	}
}
