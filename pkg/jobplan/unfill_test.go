package jobplan

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"g8s.host/gpu-scheduler/pkg/workload"
)

const refillHead = "kind: training\njob: {name: a}\nenvironment: {image: busybox}\n"

// jobOf reads a job that is there, with what was noted of its preset.
func jobOf(t *testing.T, source, filled string) workload.Document {
	t.Helper()
	docs, diagnostics := workload.Parse("a.yaml", []byte(source))
	if diagnostics.HasErrors() {
		t.Fatal(diagnostics)
	}
	docs[0].Filled = filled
	return docs[0]
}

// made is a job as a preset makes it.
func made(t *testing.T, source string) workload.Document {
	t.Helper()
	doc, err := FillPreset(jobOf(t, source, ""), presets)
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

func TestAPresetNotesWhatItFills(t *testing.T) {
	tests := map[string]struct{ resources, want string }{
		"all of it":                  {"preset: a100-small", "{pool: train, gpu: 1, gpu-type: A100-80G, cpu: 8, memory: 64Gi}"},
		"what the job leaves out":    {"preset: a100-small, gpu: 1, memory: 64Gi", "{pool: train, gpu-type: A100-80G, cpu: 8}"},
		"nothing":                    {"preset: slice, pool: dev, mig: 3g.20gb", "{}"},
		"slices instead of its GPUs": {"preset: slice, gpu: 1", "{pool: dev}"},
		"no preset":                  {"gpu: 1", ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := made(t, refillHead+"resources: {"+tc.resources+"}\n").Filled; got != tc.want {
				t.Errorf("it noted %q, want %q", got, tc.want)
			}
		})
	}
}

func TestWhatWasFilledCountsOnWhileTheJobHasThePreset(t *testing.T) {
	const all = "preset: a100-small, pool: train, gpu: 1, gpu-type: A100-80G, cpu: 8, memory: 64Gi"
	tests := map[string]struct{ filled, after, want string }{
		"nothing has changed":      {"{gpu: 1, cpu: 8}", all, "{gpu: 1, cpu: 8}"},
		"a value has":              {"{gpu: 1, cpu: 8}", strings.Replace(all, "cpu: 8", "cpu: 9", 1), "{gpu: 1, cpu: 8}"},
		"a field is filled again":  {"{gpu: 1}", strings.Replace(all, ", cpu: 8", "", 1), "{gpu: 1, cpu: 8}"},
		"a field has gone":         {"{gpu: 1, shm: 1Gi}", all, "{gpu: 1}"},
		"nobody noted it":          {"", strings.Replace(all, ", cpu: 8", "", 1), ""},
		"another preset is noted":  {"{gpu: 1}", "preset: slice, gpu: 2", "{pool: dev}"},
		"others wrote in the note": {"[", all, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			before := jobOf(t, refillHead+"resources: {"+all+"}\n", tc.filled)
			got, err := FillPresetAgain(before, jobOf(t, refillHead+"resources: {"+tc.after+"}\n", tc.filled), presets)
			if err != nil || got.Filled != tc.want {
				t.Errorf("it noted %q, want %q: %v", got.Filled, tc.want, err)
			}
		})
	}
}

func TestRefilled(t *testing.T) {
	with := map[string]string{"big": "pool: train\ngpu: 8\ncpu: 64\n", "wrong": "gpus: 1\n", "small": "gpu: 2\ngpu-type: A100-80G\nmemory: 64Gi\n"}
	tests := map[string]struct {
		before, filled string // the resources of the job, and the note
		after          string // the resources as the user has written them
		set            []string
		want, says     string
		err            string
	}{
		"what was filled goes": {
			before: "preset: small, gpu: 2, gpu-type: A100-80G, memory: 64Gi", filled: "{gpu: 2, gpu-type: A100-80G, memory: 64Gi}",
			after: "preset: big, gpu: 2, gpu-type: A100-80G, memory: 64Gi", want: "{preset: big}",
			says: "preset big fills pool, gpu, cpu; was nothing, 2, nothing; drops gpu-type, memory of preset small, which was A100-80G, 64Gi",
		},
		"what was written by hand stays, though it is what the preset says": {
			before: "preset: small, gpu: 2, gpu-type: A100-80G, memory: 64Gi", filled: "{gpu-type: A100-80G}",
			after: "preset: big, gpu: 2, gpu-type: A100-80G, memory: 64Gi", want: "{preset: big, gpu: 2, memory: 64Gi}",
			says: "preset big fills pool, cpu; drops gpu-type of preset small, which was A100-80G; the job keeps its own gpu, memory",
		},
		"what was changed since stays, and is told": {
			before: "preset: small, gpu: 4, memory: 64Gi", filled: "{gpu: 2, memory: 64Gi}",
			after: "preset: big, gpu: 4, memory: 64Gi", want: "{preset: big, gpu: 4}",
			says: "preset big fills pool, cpu; drops memory of preset small, which was 64Gi; it keeps gpu, changed since preset small filled it",
		},
		"what is set with the preset stays": {
			before: "preset: small, gpu: 2, memory: 64Gi", filled: "{gpu: 2, memory: 64Gi}",
			after: "preset: big, gpu: 2, memory: 64Gi", set: []string{"resources.gpu=2"}, want: "{preset: big, gpu: 2}",
			says: "preset big fills pool, cpu; drops memory of preset small, which was 64Gi",
		},
		"in another spelling": {
			before: "preset: small, gpuType: A100-80G", filled: "{gpu-type: A100-80G}",
			after: "preset: big, gpuType: A100-80G", want: "{preset: big}",
			says: "preset big fills pool, gpu, cpu; drops gpu-type of preset small, which was A100-80G",
		},
		"a list is another value than its one entry": {
			before: "preset: small, gpu: 2, gpu-type: [A100-80G]", filled: "{gpu-type: A100-80G}",
			after: "preset: big, gpu-type: [A100-80G]", want: "{preset: big, gpu-type: [A100-80G]}",
			says: "preset big fills pool, gpu, cpu; it keeps gpu-type, changed since preset small filled it",
		},
		"a preset that went, of which was noted what it filled": {
			before: "preset: gone, gpu: 2", filled: "{gpu: 2}", after: "preset: big, gpu: 2", want: "{preset: big}",
			says: "preset big fills pool, gpu, cpu; was nothing, 2, nothing",
		},
		"a job of which nobody noted it": {
			before: "preset: small, gpu: 2, memory: 1Ti", after: "preset: big, gpu: 2, memory: 1Ti", want: "{preset: big, memory: 1Ti}",
			says: "preset big fills pool, gpu, cpu; was nothing, 2, nothing; the job keeps its own memory " +
				"(nobody noted what preset small had filled: it is what was as the preset has it)",
		},
		"a preset that went, of which nobody noted it": {
			before: "preset: gone, gpu: 2", after: "preset: big, gpu: 2", err: `"gone" is no longer there`,
		},
		"the same preset":            {before: "preset: small, gpu: 2", filled: "{gpu: 2}", after: "preset: small, gpu: 2", want: "{preset: small, gpu: 2}"},
		"no preset before":           {before: "gpu: 2", after: "preset: big, gpu: 2", want: "{preset: big, gpu: 2}"},
		"no preset any more":         {before: "preset: small, gpu: 2", filled: "{gpu: 2}", after: "gpu: 2", want: "{gpu: 2}"},
		"one that is not there":      {before: "preset: small, gpu: 2", filled: "{gpu: 2}", after: "preset: bgi, gpu: 2", want: "{preset: bgi, gpu: 2}"},
		"one that cannot be used":    {before: "preset: small, gpu: 2", filled: "{gpu: 2}", after: "preset: wrong, gpu: 2", want: "{preset: wrong}"},
		"one that fills nothing":     {before: "preset: small, gpu: 2", filled: "{}", after: "preset: big, gpu: 2, pool: p, cpu: 1", want: "{preset: big, gpu: 2, pool: p, cpu: 1}", says: "preset big fills nothing; the job keeps its own pool, gpu, cpu"},
		"what no preset fills stays": {before: "preset: small, gpu: 2, time-limit: 1h", filled: "{gpu: 2}", after: "preset: big, time-limit: 1h", want: "{preset: big, time-limit: 1h}", says: "preset big fills pool, gpu, cpu"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			before := jobOf(t, refillHead+"resources: {"+tc.before+"}\n", tc.filled)
			got, err := ChangePreset(before, refillHead+"resources: {"+tc.after+"}\n", Overrides{Set: tc.set}, with)
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("error %v, want %q", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if _, resources, _ := strings.Cut(got.Source, "resources: "); strings.TrimSpace(resources) != tc.want {
				t.Errorf("resources are %s, want %s", resources, tc.want)
			}
			if says := got.Message().String(); says != tc.says {
				t.Errorf("it says\n%s\nwant\n%s", says, tc.says)
			}
		})
	}
}

// TestARefillKeepsComments: those on the line of a field are about that, and those above and below it may be about more.
func TestARefillKeepsComments(t *testing.T) {
	const source = refillHead + `resources:
  # how it is asked for
  preset: big
  # what the model needs
  gpu: 2 # two of them
  # in which pool
  pool: train
  # as much as there is

  # the last
  memory: 64Gi # all
  # the end
`
	want := refillHead + `resources:
  # how it is asked for
  preset: big
  # what the model needs

  # in which pool
  pool: train
  # as much as there is

  # the last

  # the end
`
	before := jobOf(t, strings.Replace(source, "big", "small", 1), "{gpu: 2, memory: 64Gi}")
	got, err := ChangePreset(before, source, Overrides{}, map[string]string{"big": "gpu: 4\n"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got.Source); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestAnchorsOfWhatIsDropped: what has an alias elsewhere lives on where that is.
func TestAnchorsOfWhatIsDropped(t *testing.T) {
	tests := map[string]struct{ resources, filled, want string }{
		"one alias":               {"{preset: big, gpu: &n 2, nodes: *n}", "{gpu: 2}", "{preset: big, nodes: &n 2}"},
		"two of them":             {"{preset: big, cpu: &n 2, gpu: *n, nodes: *n}", "{cpu: 2}", "{preset: big, gpu: &n 2, nodes: *n}"},
		"no alias":                {"{preset: big, gpu: &n 2}", "{gpu: 2}", "{preset: big}"},
		"the alias goes":          {"{preset: big, nodes: &n 2, gpu: *n}", "{cpu: 2}", "{preset: big, nodes: &n 2, gpu: *n}"},
		"a name that is of two":   {"{preset: big, gpu: &n 2, nodes: *n, cpu: &n 8, memory: *n}", "{gpu: 2}", "{preset: big, nodes: &n 2, cpu: &n 8, memory: *n}"},
		"one of a list":           {"{preset: big, gpu-type: [&t A100], tolerations: [*t]}", "{gpu-type: [A100]}", "{preset: big, tolerations: [&t A100]}"},
		"a list and one of it":    {"{preset: big, gpu-type: &l [&t A100, B], tolerations: *l, topology: *t}", "{gpu-type: [A100, B]}", "{preset: big, tolerations: &l [A100, B], topology: &t A100}"},
		"what the job keeps":      {"{preset: big, gpu: &n 2, nodes: *n}", "{cpu: 8}", "{preset: big, gpu: &n 2, nodes: *n}"},
		"an alias with a comment": {"\n  preset: big\n  gpu: &n 2 # two\n  nodes: *n # as many\n", "{gpu: 2}", "preset: big\n  nodes: &n 2 # as many"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			refill := Refill{Source: "resources: " + tc.resources + "\n"}
			if _, _, err := refill.removeFilled(readValues(tc.filled)); err != nil {
				t.Fatal(err)
			}
			if got := strings.TrimSpace(strings.TrimPrefix(refill.Source, "resources:")); got != tc.want {
				t.Errorf("resources are %s, want %s", got, tc.want)
			}
			if _, err := editDocument(refill.Source, func(*yaml.Node) error { return nil }); err != nil {
				t.Errorf("it cannot be read any more: %v", err)
			}
		})
	}
}

// TestWhatIsSetLeavesAliasesAsTheyWere: a field that gets another value does not change another field with it.
func TestWhatIsSetLeavesAliasesAsTheyWere(t *testing.T) {
	for set, want := range map[string]string{
		"resources.gpu=4":       "{gpu: 4, nodes: &n 2, cpu: *n}",
		"resources.nodes=4":     "{gpu: &n 2, nodes: 4, cpu: *n}",
		"resources.mig=1g.10gb": "{nodes: &n 2, cpu: *n, mig: 1g.10gb}",
	} {
		got, err := Overrides{Set: []string{set}}.Apply(workload.KindTraining, "resources: {gpu: &n 2, nodes: *n, cpu: *n}\n")
		if got = strings.TrimSpace(strings.TrimPrefix(got, "resources: ")); err != nil || got != want {
			t.Errorf("%s makes %s, want %s: %v", set, got, want, err)
		}
	}
}

// TestANoteIsReadAsItWasWritten whatever the values look like.
func TestANoteIsReadAsItWasWritten(t *testing.T) {
	for _, text := range []string{
		"gpu: 2\n", "cpu: \"0.5\"\nmemory: 010\n", "gpu-type: 'yes'\npool: null\n", "gpu-type:\n- A100 # fast\n- \"a: b\"\n", "mig:\n  1g.5gb: 2\n  3g.20gb: 1\n",
		"mig: [{profile: 1g.5gb, count: 2}]\n", "pool: |\n  two\n  lines\n", "pool: \"#1, {x}\"\n", "cpu: &n 2\ngpu: *n\n", "{}\n",
	} {
		preset := ParsePreset("p", text)
		note, err := preset.values.encodeNote()
		if err != nil || strings.Contains(note, "\n") {
			t.Errorf("%q is noted as %q: %v", text, note, err)
		}
		read := readValues(note)
		if len(read) != len(preset.values) {
			t.Errorf("of %q is read %d fields, want %d", note, len(read), len(preset.values))
		}
		for field, value := range preset.values {
			if !isSameValue(value, read[field]) {
				t.Errorf("%s of %q is read otherwise than it was written", field, note)
			}
		}
	}
	for _, note := range []string{"", "x", "[gpu]", "{gpu: 2", "{gpus: 2}", "{gpu: 1, gpu: 2}", "&a [*a]", "{gpu: *x}"} {
		if got := readValues(note); got != nil {
			t.Errorf("%q is read as %d fields", note, len(got))
		}
	}
}
