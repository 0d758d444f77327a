package cli

import (
	"strings"
	"testing"

	"g8s.host/gpu-scheduler/pkg/phrase"
)

func TestGPUAndType(t *testing.T) {
	tests := map[string]struct{ count, model, err string }{
		"":                             {"", "", ""},
		"2":                            {"2", "", ""},
		"0":                            {"0", "", ""},
		"two":                          {"two", "", ""}, // for the field to refuse
		"all":                          {"all", "", ""},
		"-1":                           {"-1", "", ""},
		"8x":                           {"8x", "", ""},
		"1O":                           {"1O", "", ""},
		"A100,H100":                    {"A100,H100", "", ""},
		"A100":                         {"1", "A100", ""},
		"A100:2":                       {"2", "A100", ""},
		"A100-80G:16":                  {"16", "A100-80G", ""},
		"4090:2":                       {"2", "4090", ""},
		"ascend:8":                     {"8", "ascend", ""},
		"A100:x":                       {"", "", `--gpu A100:x: "x" is no number of GPUs: write TYPE:NUMBER, such as A100-80G:2`},
		"A100:0":                       {"", "", `"0" is no number of GPUs`},
		"A100:-1":                      {"", "", `"-1" is no number of GPUs`},
		"A100:0.5":                     {"", "", `"0.5" is no number of GPUs`},
		"A100:2:4":                     {"", "", `"2:4" is no number of GPUs`},
		"A100:２":                       {"", "", `"２" is no number of GPUs`},
		"A100: 2":                      {"", "", `" 2" is no number of GPUs`},
		"A100:2x4":                     {"", "", `for 2 GPUs on each of 4 nodes write --gpu A100:2 --nodes 4`},
		"A100:":                        {"", "", "the number is missing: write it after the colon, as in A100:2"},
		":2":                           {"", "", "the type is missing"},
		":":                            {"", "", "the type is missing"},
		"2:A100":                       {"", "", `"A100" is no number: the type stands first, as in A100:2`},
		"A100-80G,H100:2":              {"", "", "--gpu A100-80G,H100:2: A100-80G,H100 names several types: write --gpu 2 --gpu-type A100-80G,H100"},
		strings.Repeat("9", 40) + ":2": {"2", strings.Repeat("9", 40), ""},
	}
	for value, tc := range tests {
		t.Run(value, func(t *testing.T) {
			count, model, err := gpuAndType(value)
			if count != tc.count || model != tc.model || (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Errorf("it is %q of %q, %v; want %q of %q, %s", count, model, err, tc.count, tc.model, tc.err)
			}
		})
	}
}

func TestRunTakesTypeAndNumberTogether(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	tests := map[string]struct {
		args   []string
		want   string // of the resources
		stderr string
	}{
		"both in one flag":          {[]string{"--gpu=A100-80G:2"}, "  gpu: 2\n  gpu-type: A100-80G\n", ""},
		"in short":                  {[]string{"-g", "A100-80G:2"}, "  gpu: 2\n  gpu-type: A100-80G\n", ""},
		"a type alone is one":       {[]string{"-g", "A100-80G"}, "  gpu: 1\n  gpu-type: A100-80G\n", ""},
		"a number alone":            {[]string{"-g", "2"}, "  gpu: 2\n", ""},
		"the same type twice":       {[]string{"-gA100:2", "--gpu-type=A100"}, "  gpu: 2\n  gpu-type: A100\n", ""},
		"two types":                 {[]string{"-gA100:2", "--gpu-type=H100"}, "", "--gpu A100:2 and --gpu-type H100 name different types"},
		"one of several types":      {[]string{"-gA100:2", "--gpu-type=A100,H100"}, "", "write --gpu 2\n"},
		"a number that is none":     {[]string{"-gA100:x"}, "", `"x" is no number of GPUs`},
		"a type that is none":       {[]string{"-g", "A 100:2"}, "", "resources.gpu-type"},
		"more than any job may ask": {[]string{"-g", "A100:99999999999"}, "", "resources.gpu"},
		"a preset":                  {[]string{"--preset", "big"}, "  preset: big\n", ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			code, out, errOut := gpuctl(t, "", append(append([]string{"run", "--dry-run", "--image=i", "--name=a"}, tc.args...), "date")...)
			_, resources, _ := strings.Cut(out, "resources:\n")
			if resources != tc.want || (code == 0) != (tc.stderr == "") || !strings.Contains(errOut, tc.stderr) {
				t.Errorf("code %d, resources\n%s%swant\n%s%s", code, resources, errOut, tc.want, tc.stderr)
			}
		})
	}
}

// TestWhatIsWrongWithGPUsIsInChinese as well.
func TestWhatIsWrongWithGPUsIsInChinese(t *testing.T) {
	_, _, err := gpuAndType("A100:x")
	if got, want := phrase.FromError(err).Localize(phrase.Chinese), `--gpu A100:x："x" 不是 GPU 数：写成 TYPE:NUMBER，例如 A100-80G:2`; got != want {
		t.Errorf("it is %q, want %q", got, want)
	}
}
