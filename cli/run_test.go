package cli

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRunPrintsAFileToBeginFrom(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	code, out, errOut := gpuctl(t, "", "run", "--dry-run", "--name=sft", "--image=busybox", "--gpu=2", "--gpu-type=A100-80G,H100-80G",
		"--pool=p", "--nodes=4", "--cpu=0.5", "--memory=64Gi", "--shm=0", "--time-limit=4h", "--priority=high", "--retries=0", "--ttl=7d",
		"--env=LR=3e-4", "--env=URL=http://x?a=b", "--set=job.description=mine", "python", "train.py", "--gpu", "8", "-n", "x")
	want := `kind: training
job:
  name: sft
  priority: high
  ttl: 7d
  retries: 0
  description: mine
environment:
  image: busybox
  command: [python, train.py, --gpu, "8", -n, x]
  env:
    LR: "3e-4"
    URL: http://x?a=b
resources:
  pool: p
  gpu: 2
  gpu-type: [A100-80G, H100-80G]
  nodes: 4
  cpu: "0.5"
  memory: 64Gi
  shm: 0
  time-limit: 4h
`
	if diff := cmp.Diff(want, out); code != 0 || diff != "" {
		t.Errorf("code %d, (-want +got):\n%s\n%s", code, diff, errOut)
	}
	file := filepath.Join(t.TempDir(), "x.yaml")
	if err := os.WriteFile(file, []byte(out), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, errOut := gpuctl(t, "", "validate", "-f", file); code != 0 {
		t.Errorf("the printed file is refused: %s", errOut)
	}
}

// TestRunTellsAChannel of what the flag says, and else of what is the default.
func TestRunTellsAChannel(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	for flag, want := range map[string]string{
		"ml": "notify:\n    channel: ml\nenv", "ml:failed": "channel: ml\n    when: failed\nenv", "ml:failed,evicted": "when: [failed, evicted]\nenv",
	} {
		if code, out, errOut := gpuctl(t, "", "run", "--dry-run", "--name=sft", "--image=busybox", "--notify="+flag, "date"); code != 0 || !strings.Contains(out, want) {
			t.Errorf("--notify %s: code %d, got\n%s%swant %q", flag, code, out, errOut, want)
		}
	}
	for flag, want := range map[string]string{"ml:fail": "is not one of succeeded, failed, cancelled, evicted", ":failed": "job.notify.channel", "ml:": "job.notify.when"} {
		if code, _, errOut := gpuctl(t, "", "run", "--dry-run", "--name=sft", "--image=busybox", "--notify="+flag, "date"); code != 2 || !strings.Contains(errOut, want) {
			t.Errorf("--notify %s: code %d and %q, want 2 and %q", flag, code, errOut, want)
		}
	}
}

func TestNameOfProgram(t *testing.T) {
	for command, want := range map[string]string{
		"python|train.py":                       "train",
		"torchrun|--nproc|8|src/My_Train.py|x":  "my-train",
		"./run.sh":                              "run",
		"nvidia-smi":                            "nvidia-smi",
		"date; sleep 3":                         "date",
		"7z|x":                                  "job-7z",
		"训练":                                    "job",
		"":                                      "job",
		" ":                                     "job",
		"/opt/" + strings.Repeat("long", 40):    strings.Repeat("long", 10),
		"python|-m|llamafactory.cli|a.b.c/d.py": "d",
	} {
		if got := programJobName(strings.Split(command, "|")); got != want {
			t.Errorf("%q is called %q, want %q", command, got, want)
		}
	}
}

func TestRunMakesNamesThatAreValid(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	for _, program := range []string{"python", "7z", "训练", "-", "a_", strings.Repeat("x", 300)} {
		code, out, errOut := gpuctl(t, "", "run", "--dry-run", "--image=i", "--", program)
		if code != 0 || !regexp.MustCompile(`(?m)^  name: [a-z][-a-z0-9]{0,39}-[a-z0-9]{5}$`).MatchString(out) {
			t.Errorf("%q: code %d, %s%s", program, code, out, errOut)
		}
	}
}

func TestWhatRunRefuses(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	tests := map[string]struct {
		args   []string
		stderr string
	}{
		"no command":                  {[]string{"--image=i"}, "needs the command to run"},
		"no image":                    {[]string{"date"}, "gpuctl config set image"},
		"a number that is none":       {[]string{"--image=i", "--gpu=two", "date"}, `resources.gpu: "two" is not a whole number`},
		"a negative number":           {[]string{"--image=i", "--gpu=-1", "date"}, "resources.gpu"},
		"a priority that is none":     {[]string{"--image=i", "--priority=urgent", "date"}, `"urgent" is not high, medium or low`},
		"a misspelt flag":             {[]string{"--image=i", "--gup=1", "date"}, `did you mean "--gpu"`},
		"a value that is empty":       {[]string{"--image=i", "--gpu=", "date"}, "resources.gpu"},
		"a field that is none":        {[]string{"--image=i", "--set=resources.foo=3", "date"}, `no field "foo"`},
		"a variable without a value":  {[]string{"--image=i", "--env=LR", "date"}, "write NAME=VALUE"},
		"a name that is none":         {[]string{"--image=i", "--name=A B", "date"}, "job.name"},
		"an image that would be YAML": {[]string{"--image=i\nresources: {gpu: 8}", "date"}, "environment.image"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			code, out, errOut := gpuctl(t, "", append([]string{"run", "--dry-run"}, tc.args...)...)
			if code != 2 || out != "" || !strings.Contains(errOut, tc.stderr) {
				t.Errorf("code %d, stdout %q, stderr %q, want %q", code, out, errOut, tc.stderr)
			}
		})
	}
}

// TestWhatIsUsual: the pool and the preset of the settings are for lines that do not choose for themselves.
func TestWhatIsUsual(t *testing.T) {
	const pool, preset = "pool: train\n", "preset: small\n"
	tests := map[string]struct {
		settings string
		args     []string
		want     []string
	}{
		"a pool":                            {pool, []string{"--gpu=2"}, []string{"pool: train", "gpu: 2"}},
		"another pool":                      {pool, []string{"--pool=dev"}, []string{"pool: dev"}},
		"no pool, as the line says":         {pool, []string{"--set=resources.pool=dev"}, []string{"pool: dev"}},
		"a preset has its pool":             {pool, []string{"--preset=large"}, []string{"preset: large"}},
		"a preset":                          {preset, nil, []string{"preset: small"}},
		"another preset":                    {preset, []string{"--preset=large"}, []string{"preset: large"}},
		"GPUs of the line's own":            {preset, []string{"--gpu=A100-80G:2"}, []string{"gpu: 2", "gpu-type: A100-80G"}},
		"slices of the line's own":          {preset, []string{"--set=resources.mig=3g.20gb"}, []string{"mig: 3g.20gb"}},
		"memory besides the preset":         {preset, []string{"--memory=1Gi"}, []string{"preset: small", "memory: 1Gi"}},
		"a pool for GPUs of the line's own": {pool + preset, []string{"--gpu=2"}, []string{"pool: train", "gpu: 2"}},
		"the preset before the pool":        {pool + preset, nil, []string{"preset: small"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			home := t.TempDir()
			t.Setenv("XDG_CONFIG_HOME", home)
			folder := filepath.Join(home, "gpuctl")
			if err := errors.Join(os.Mkdir(folder, 0o755), os.WriteFile(filepath.Join(folder, "config.yaml"), []byte("image: i\n"+tc.settings), 0o600)); err != nil {
				t.Fatal(err)
			}
			code, out, errOut := gpuctl(t, "", slices.Concat([]string{"run", "--dry-run"}, tc.args, []string{"date"})...)
			_, resources, _ := strings.Cut(out, "resources:\n")
			var got []string
			for line := range strings.Lines(resources) {
				if line = strings.TrimSpace(line); line != "" {
					got = append(got, line)
				}
			}
			if code != 0 || !slices.Equal(got, tc.want) {
				t.Errorf("code %d, resources %q, want %q\n%s%s", code, got, tc.want, out, errOut)
			}
		})
	}
}

func TestSettingsAreKept(t *testing.T) {
	home := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", home)
	path := filepath.Join(home, "gpuctl", "config.yaml")
	step := func(want int, args ...string) (string, string) {
		t.Helper()
		code, out, errOut := gpuctl(t, "", append([]string{"config"}, args...)...)
		if code != want {
			t.Fatalf("config %v: code %d, %s", args, code, errOut)
		}
		return out, errOut
	}
	step(0, "set", "image", "busybox:1")
	if code, out, errOut := gpuctl(t, "", "run", "--dry-run", "date"); code != 0 || !strings.Contains(out, "image: busybox:1") {
		t.Errorf("the image of the settings is not used: %s%s", out, errOut)
	}
	if err := os.WriteFile(path, []byte("# mine\nimage: a # why\nprometheus: http://p\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	step(0, "set", "namespace", "nlp")
	step(0, "set", "image", "7")
	want := "# mine\nimage: \"7\"\nprometheus: http://p\nnamespace: nlp\n"
	if got, _ := os.ReadFile(path); string(got) != want {
		t.Errorf("the file is %q, want %q", got, want)
	}
	if out, _ := step(0, "view"); out != "namespace: nlp\nimage: 7\nprometheus: http://p\n" {
		t.Errorf("view prints %q", out)
	}
	for _, key := range []string{"image", "namespace", "prometheus", "image"} {
		step(0, "unset", key)
	}
	if out, _ := step(0, "view"); out != "" {
		t.Errorf("view prints %q, and nothing is set", out)
	}
	for _, args := range [][]string{{"set", "imgae", "x"}, {"set", "namespace", "A b"}, {"set", "image"}, {"unset"}, {"set", "namespace", ""}} {
		step(2, args...)
	}
	broken := []byte("image: [\n")
	if err := os.WriteFile(path, broken, 0o600); err != nil {
		t.Fatal(err)
	}
	step(2, "set", "image", "x")
	if got, _ := os.ReadFile(path); string(got) != string(broken) {
		t.Errorf("a file that cannot be read was written over: %q", got)
	}
	left, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(left) != 1 {
		t.Errorf("files are left: %v %v", left, err)
	}
}

func TestOverridesChangeOneJob(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	code, out, errOut := gpuctl(t, trainingYAML, "render", "-f", "-", "--name=b", "--set=resources.gpu=8", "--env=LR=1", "-o", "json")
	for _, want := range []string{`"name": "b"`, `"nvidia.com/gpu": "8"`, `"value": "1"`} {
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("code %d, %s has no %s", code, errOut, want)
		}
	}
	for name, stdin := range map[string]string{
		"two documents": trainingYAML + "---\n" + strings.Replace(trainingYAML, "sft", "b", 1),
		"a pool":        "kind: pool\nmetadata: {name: p}\nnodes: {n: {}}\n",
	} {
		if code, _, errOut := gpuctl(t, stdin, "render", "-f", "-", "--name=b"); code != 2 || !strings.Contains(errOut, "change one job") {
			t.Errorf("%s: code %d, %s", name, code, errOut)
		}
	}
	if code, _, errOut := gpuctl(t, trainingYAML, "render", "-f", "-", "--set=resources.gpu=x"); code != 2 || !strings.Contains(errOut, `"x" is not a whole number`) {
		t.Errorf("code %d, %s", code, errOut)
	}
}
