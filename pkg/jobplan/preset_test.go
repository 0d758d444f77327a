package jobplan

import (
	"strings"
	"testing"

	"g8s.host/gpu-scheduler/pkg/workload"
)

var presets = map[string]string{
	"a100-small": "description: one card\npool: train\ngpu: 1\ngpu-type: A100-80G\ncpu: 8\nmemory: 64Gi\n",
	"slice":      "pool: dev\nmig: 3g.20gb\n",
	"wrong":      "gpus: 1\n",
	"too-much":   "gpu: 100000\n",
	"empty":      "description: nothing\n",
	"twice":      "gpu-type: A\ngpuType: B\n",
	"both":       "gpu: 1\nmig: 3g.20gb\n",
	"huge":       strings.Repeat("# x\n", 2000),
	"list":       "[gpu]",
}

func TestFilled(t *testing.T) {
	tests := map[string]struct {
		resources string
		want      string // of the resources, as they are written
		err       string
	}{
		"all of it":                      {"preset: a100-small", "{preset: a100-small, pool: train, gpu: 1, gpu-type: A100-80G, cpu: 8, memory: 64Gi}", ""},
		"a value of its own wins":        {"preset: a100-small, gpu: 4, memory: 1Ti", "{preset: a100-small, gpu: 4, memory: 1Ti, pool: train, gpu-type: A100-80G, cpu: 8}", ""},
		"in another spelling":            {"preset: a100-small, gpuType: [H100, H200]", "{preset: a100-small, gpuType: [H100, H200], pool: train, gpu: 1, cpu: 8, memory: 64Gi}", ""},
		"no GPU is a value":              {"preset: a100-small, gpu: 0", "{preset: a100-small, gpu: 0, pool: train, gpu-type: A100-80G, cpu: 8, memory: 64Gi}", ""},
		"slices instead of its GPUs":     {"preset: a100-small, mig: 1g.5gb", "{preset: a100-small, mig: 1g.5gb, pool: train, gpu-type: A100-80G, cpu: 8, memory: 64Gi}", ""},
		"GPUs instead of its slices":     {"preset: slice, gpu: 2", "{preset: slice, gpu: 2, pool: dev}", ""},
		"what needs what the preset has": {"preset: a100-small, idle-timeout: 1h", "{preset: a100-small, idle-timeout: 1h, pool: train, gpu: 1, gpu-type: A100-80G, cpu: 8, memory: 64Gi}", ""},
		"what needs what it has not":     {"preset: slice, idle-timeout: 1h", "", "resources.idle-timeout needs resources.gpu"},
		"none":                           {"gpu: 1", "{gpu: 1}", ""},
		"one that is not there":          {"preset: a100-smal", "", `is no preset (did you mean "a100-small"?)`},
		"a field that is none":           {"preset: wrong", "", `unknown field "gpus" (did you mean "gpu"?)`},
		"a value that is none":           {"preset: too-much", "", "out of range"},
		"a preset that fills nothing":    {"preset: empty", "", "it fills nothing"},
		"a field in two spellings":       {"preset: twice", "", "is there twice"},
		"GPUs and slices":                {"preset: both", "", "mig and gpu exclude each other"},
		"one that is too large":          {"preset: huge", "", "at most 4096 are read"},
		"one that is a list":             {"preset: list", "", "it is no section"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			const head = "kind: training\njob: {name: a}\nenvironment: {image: busybox}\nresources: "
			docs, diagnostics := workload.Parse("a.yaml", []byte(head+"{"+tc.resources+"}\n"))
			if diagnostics.HasErrors() {
				t.Fatal(diagnostics)
			}
			got, err := FillPreset(docs[0], presets)
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
			again, err := FillPreset(got, map[string]string{"a100-small": "gpu: 8\n", "slice": "gpu: 8\n"})
			if err != nil || again.Source != got.Source && !strings.Contains(tc.resources, "mig") {
				t.Errorf("filled once more it is %s, error %v", again.Source, err)
			}
		})
	}
}

func TestWhatAPresetLoses(t *testing.T) {
	was := ParsePreset("p", presets["a100-small"])
	for text, want := range map[string]string{
		presets["a100-small"]: "",
		"gpuType: B\npool: p\ngpu: 2\ncpu: 1\nmemory: 1Gi\ndescription: x\n": "",
		"gpu: 4\n": "pool gpu-type cpu memory description",
	} {
		if got := strings.Join(was.LostFields(ParsePreset("p", text)), " "); got != want {
			t.Errorf("it loses %q by %q, want %q", got, text, want)
		}
	}
}

// TestWhatIsFilledInKeepsTheFolder that was sent with the job: without it a job that is changed could not be rendered any more.
func TestWhatIsFilledInKeepsTheFolder(t *testing.T) {
	doc := parsed(t, "kind: training\njob: {name: a, workdir: .}\nenvironment: {image: busybox}\nresources: {preset: a100-small}\n")
	doc.Upload = workload.NewUpload("sha", []byte("archive"))
	filled, err := FillPreset(doc, presets)
	if err != nil {
		t.Fatal(err)
	}
	again, err := FillPresetAgain(filled, filled, presets)
	if err != nil {
		t.Fatal(err)
	}
	shared, share, err := FillPoolShare(filled, map[string]string{"train": "8Gi"})
	if err != nil || share == "" {
		t.Fatalf("share %q, error %v", share, err)
	}
	for how, got := range map[string]workload.Document{"by its preset": filled, "once more": again, "by its pool": shared} {
		if got.Upload != doc.Upload {
			t.Errorf("filled in %s it has the folder %v, want %v", how, got.Upload, doc.Upload)
		}
	}
}
