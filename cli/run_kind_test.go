package cli

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestRunMakesOtherKinds of job than training, with what they need of secrets and volumes.
func TestRunMakesOtherKinds(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	tests := map[string]struct {
		args []string
		want string
	}{
		"a notebook": {
			args: []string{"--notebook", "--name=lab", "--image=jupyter", "--gpu=1", "--volume=data:/data", "--volume=shared:/sets:ro"},
			want: "kind: notebook\njob:\n  name: lab\nenvironment:\n  image: jupyter\nresources:\n  gpu: 1\n  cpu: 1\n  memory: 1Gi\n" +
				"storage:\n  workdirs: [{mount-path: /data, pvc: data}, {mount-path: /sets, pvc: shared, read-only: true}]\n",
		},
		"a service": {
			args: []string{"--service", "--port=9000", "--name=chat", "--image=vllm", "--secret=HF_TOKEN=hf/token", "--image-pull-secret=ghcr", "vllm", "serve"},
			want: "kind: inference\njob:\n  name: chat\nenvironment:\n  image: vllm\n  command: [vllm, serve]\n  image-pull-secret: ghcr\n" +
				"  env: [{name: HF_TOKEN, value-from: {secret-key-ref: {key: token, name: hf}}}]\n" +
				"resources:\n  cpu: 1\n  memory: 1Gi\nservice:\n  port: 9000\n",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"run", "--dry-run", "--cpu=1", "--memory=1Gi"}, tc.args...)
			code, out, errOut := gpuctl(t, "", args...)
			if diff := cmp.Diff(tc.want, out); code != 0 || diff != "" {
				t.Errorf("code %d, (-want +got):\n%s\n%s", code, diff, errOut)
			}
		})
	}
}

// TestRunRefusesWhatAKindHasNot, and says what to write instead.
func TestRunRefusesWhatAKindHasNot(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	tests := map[string]struct {
		args []string
		want string
	}{
		"two kinds":            {[]string{"--notebook", "--service"}, "leave out --notebook or --service"},
		"a port of training":   {[]string{"--port=1", "date"}, "add --notebook or --service"},
		"a terminal":           {[]string{"--notebook", "-i"}, "leave out -i and -t"},
		"an end":               {[]string{"--service", "--time-limit=1h"}, "--time-limit is of a training job"},
		"no key of a secret":   {[]string{"--secret=A=b", "date"}, "write VARIABLE=SECRET/KEY"},
		"no path of a volume":  {[]string{"--volume=a", "date"}, "write VOLUME:PATH"},
		"no command to run":    {nil, "needs the command to run"},
		"a path that is local": {[]string{"--volume=a:b", "date"}, "write VOLUME:PATH"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			code, _, errOut := gpuctl(t, "", append([]string{"run", "--image=i", "--dry-run"}, tc.args...)...)
			if code != exitUsage || !strings.Contains(errOut, tc.want) {
				t.Errorf("code %d, %q; want %q", code, errOut, tc.want)
			}
		})
	}
}
