package rules

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/sets"

	"g8s.host/gpu-scheduler/cli"
	"g8s.host/gpu-scheduler/manifests"
)

// line is one command of a page. Whole says that it stands in a block, to be copied as it is; in a sentence it may name
// a command without what it works on.
type line struct {
	page  string
	words []string
	whole bool
}

func (l line) String() string { return l.page + ": " + strings.Join(l.words, " ") }

var (
	fenced  = regexp.MustCompile("(?s)```\\w*\n(.*?)```")
	quoted  = regexp.MustCompile("`([^`]+)`")
	goesOn  = regexp.MustCompile(`\\\n\s*`)
	comment = regexp.MustCompile(`\s+#.*`)
)

// pages are the texts of the runbooks and of docs/monitoring.md, by name.
func pages(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob(runbooks + "/*.md")
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	for _, file := range append(files, "../../../docs/monitoring.md") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		texts[filepath.Base(file)] = string(text)
	}
	return texts
}

// lines are all commands of the pages that begin with a program.
func lines(t *testing.T, program string) (found []line) {
	t.Helper()
	for page, text := range pages(t) {
		add := func(command string, whole bool) {
			command, _, _ = strings.Cut(comment.ReplaceAllString(command, ""), " | ")
			if words := strings.Fields(command); len(words) > 0 && words[0] == program {
				found = append(found, line{page: page, words: words, whole: whole})
			}
		}
		for _, block := range fenced.FindAllStringSubmatch(text, -1) {
			for each := range strings.Lines(goesOn.ReplaceAllString(block[1], "")) {
				if command, ok := strings.CutPrefix(each, "$ "); ok {
					add(command, true)
				}
			}
		}
		for _, span := range quoted.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
			add(span[1], false)
		}
	}
	if len(found) < 10 {
		t.Fatalf("found %d lines of %s, so the test would prove little", len(found), program)
	}
	return found
}

// TestPagesNameCommandsOfGpuctl tries each on the command tree that gpuctl runs.
func TestPagesNameCommandsOfGpuctl(t *testing.T) {
	for _, line := range lines(t, "gpuctl") {
		root := cli.NewRootCommand(cli.IOStreams{})
		command, rest, err := root.Find(line.words[1:])
		if err != nil || command == root {
			t.Errorf("%s: gpuctl has no such command (%v)", line, err)
			continue
		}
		if err := command.ParseFlags(rest); err != nil {
			t.Errorf("%s: %v", line, err)
		}
		rest = command.Flags().Args()
		if command.HasSubCommands() && (line.whole || len(rest) > 0) {
			t.Errorf("%s: %s only groups others: %s", line, command.CommandPath(), names(command))
		}
		if err := command.ValidateArgs(rest); err != nil && (line.whole || len(rest) > 0) {
			t.Errorf("%s: %v", line, err)
		}
	}
}

func names(command *cobra.Command) string {
	var all []string
	for _, sub := range command.Commands() {
		all = append(all, sub.Name())
	}
	return strings.Join(all, ", ")
}

// kubectlFlags are the flags that each verb of kubectl is used with here. Those of true are followed by a value, if not by =.
var kubectlFlags = map[string]map[string]bool{
	"apply":                     {"--server-side": false, "-k": true},
	"auth can-i":                {"--as": true},
	"create clusterrolebinding": {"--clusterrole": true, "--serviceaccount": true},
	"delete":                    {"-n": true},
	"describe":                  {"-n": true, "-l": true},
	"get":                       {"-n": true, "-A": false, "-l": true, "--field-selector": true},
	"label":                     {},
	"logs":                      {"-n": true, "-l": true, "--tail": true, "--previous": false, "--prefix": false},
}

// TestPagesNameWhatIsInstalled reads each line of kubectl: its verb and flags are known, and the labels, names and folders
// are those of manifests/.
func TestPagesNameWhatIsInstalled(t *testing.T) {
	installed := manifestText(t)
	for _, line := range lines(t, "kubectl") {
		verb, rest := line.words[1], line.words[2:]
		if _, known := kubectlFlags[verb]; !known && len(rest) > 0 {
			verb, rest = verb+" "+rest[0], rest[1:]
		}
		flags, positional := kubectlArgs(t, line, verb, rest)
		for _, problem := range misnamed(installed, verb, flags, positional) {
			t.Errorf("%s: %s", line, problem)
		}
	}
}

// kubectlArgs takes a line apart.
func kubectlArgs(t *testing.T, of line, verb string, words []string) (flags map[string]string, positional []string) {
	t.Helper()
	known, ok := kubectlFlags[verb]
	if !ok {
		t.Errorf("%s: %q is no verb that this test knows", of, verb)
	}
	flags = map[string]string{}
	for i := 0; i < len(words); i++ {
		if !strings.HasPrefix(words[i], "-") {
			positional = append(positional, words[i])
			continue
		}
		name, value, given := strings.Cut(words[i], "=")
		takes, ok := known[name]
		if !ok {
			t.Errorf("%s: %s is no flag of kubectl %s that this test knows", of, name, verb)
		}
		if takes && !given && i+1 < len(words) {
			i++
			value = words[i]
		}
		flags[name] = value
	}
	return flags, positional
}

// misnamed says what a line of kubectl names and manifests/ has not.
func misnamed(installed, verb string, flags map[string]string, positional []string) (problems []string) {
	want := func(text string) {
		if !strings.Contains(installed, text+"\n") {
			problems = append(problems, "nothing in manifests/ has "+text)
		}
	}
	if label := flags["-l"]; label != "" {
		want(strings.Replace(label, "=", ": ", 1))
	}
	if namespace := flags["-n"]; namespace != "" && namespace != "NAMESPACE" {
		want("namespace: " + namespace)
	}
	if role := flags["--clusterrole"]; role != "" {
		want("name: " + role)
	}
	if folder, ok := strings.CutPrefix(flags["-k"], "manifests/"); ok {
		if _, err := fs.Stat(manifests.FS, folder+"/kustomization.yaml"); err != nil {
			problems = append(problems, err.Error())
		}
	}
	if verb == "get" && len(positional) == 2 { // and a Lease is made by who leads, under the name that they may write
		if name := positional[1]; !strings.Contains(installed, "name: "+name+"\n") && !strings.Contains(installed, "["+name+"]\n") {
			problems = append(problems, "nothing in manifests/ is called "+name)
		}
	}
	if verb == "label" { // of nodes, such as KEY=VALUE, or KEY- to take it away
		for _, label := range positional[min(2, len(positional)):] {
			key, _, _ := strings.Cut(strings.TrimSuffix(label, "-"), "=")
			if !strings.Contains(installed, key+": ") {
				problems = append(problems, "nothing in manifests/ selects "+key)
			}
		}
	}
	if _, tail := flags["--tail"]; verb == "logs" && flags["-l"] != "" && !tail {
		problems = append(problems, "with -l kubectl shows ten lines of each pod: say how many, with --tail")
	}
	return problems
}

// manifestText is all that is installed.
func manifestText(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	err := fs.WalkDir(manifests.FS, ".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".yaml") {
			return err
		}
		text, err := manifests.FS.ReadFile(path)
		all.Write(append(text, '\n'))
		return err //nolint:wrapcheck // the test says where
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}

var (
	series   = regexp.MustCompile(`series: '(\w+)`)
	recorded = regexp.MustCompile(`record: (\w+)`)
	queried  = regexp.MustCompile(`"expr": "(.*)"`)
	// elsewhere are words that look like metrics, and are a label and an attribute of spans, and metrics that the tests of their
	// packages alone look for.
	elsewhere = map[string]string{
		"gpu_scheduler": "plugins/traced.go",
		"gpu_scheduler_score_kept_whole_pods_total": "plugins/gpureserve/metrics_test.go",
		"gpu_type":                     "pkg/controller/census/census_test.go",
		"gpu_controller_spot_machines": "pkg/controller/census/census_test.go",
		"gpu_ledger_file_bytes":        "pkg/ledger/server/server_test.go",
	}
)

// TestPagesNameMetrics: each is one that the rules are tried with, that they record, or that a dashboard asks for, which
// other tests find on the programs themselves.
func TestPagesNameMetrics(t *testing.T) {
	tried, err := os.ReadFile("testdata/rules_test.yaml")
	if err != nil {
		t.Fatal(err)
	}
	known := sets.New[string]()
	for name, file := range elsewhere {
		if text, err := os.ReadFile("../../../" + file); err != nil || !strings.Contains(string(text), name) {
			t.Errorf("%s does not look for %s: %v", file, name, err)
		}
		known.Insert(name)
	}
	for _, match := range slices.Concat(series.FindAllSubmatch(tried, -1), recorded.FindAllSubmatch(source(t), -1)) {
		known.Insert(string(match[1]))
	}
	boards, err := fs.Glob(manifests.FS, "monitoring/dashboards/*.json")
	if err != nil || len(boards) == 0 {
		t.Fatalf("%d dashboards, %v", len(boards), err)
	}
	for _, board := range boards {
		text, err := manifests.FS.ReadFile(board)
		if err != nil {
			t.Fatal(err)
		}
		for _, query := range queried.FindAllSubmatch(text, -1) {
			known.Insert(metric.FindAllString(string(query[1]), -1)...)
		}
	}
	for page, text := range pages(t) {
		for _, span := range quoted.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
			for _, name := range metric.FindAllString(span[1], -1) {
				if !known.Has(name) {
					t.Errorf("%s names %s, which no rule is tried with and no dashboard asks for", page, name)
				}
			}
		}
	}
}
