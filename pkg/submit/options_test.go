package submit

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"g8s.host/gpu-scheduler/pkg/render"
	"g8s.host/gpu-scheduler/pkg/workload"
)

// TestAJobWhoseChannelIsNotThereIsWarnedOf, by the namespace that it will be in.
func TestAJobWhoseChannelIsNotThereIsWarnedOf(t *testing.T) {
	tests := map[string]struct {
		job  string
		want int
	}{
		"a channel of the namespace": {job: "{name: a, notify: {channel: ml}}"},
		"no channel at all":          {job: "{name: a}"},
		"a slip":                     {job: "{name: a, notify: {channel: mll}}", want: 1},
		"one that is of other's":     {job: "{name: a, namespace: other, notify: {channel: ml}}", want: 1},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			docs, diagnostics := workload.Parse("t", []byte("kind: training\njob: "+tc.job+"\nenvironment: {image: b}\n"))
			if diagnostics.HasErrors() {
				t.Fatal(diagnostics)
			}
			_, warnings, err := RenderOptions(t.Context(), &facts{}, docs, "n")
			if err != nil || len(warnings) != tc.want {
				t.Errorf("got warnings %q and error %v, want %d", warnings, err, tc.want)
			}
		})
	}
}

// facts answers from values, and notes what it was asked.
type facts struct {
	err   error
	asked []string
}

func (f *facts) SharedPools(context.Context) (map[string]bool, error) {
	f.asked = append(f.asked, "pools")
	return map[string]bool{"p": true}, f.err
}

func (f *facts) AliasedTypes(_ context.Context, types []string) (map[string]bool, error) {
	f.asked = append(f.asked, "types "+strings.Join(types, ","))
	return map[string]bool{"T4": true}, f.err
}

func (f *facts) HostPaths(context.Context) ([]string, error) {
	f.asked = append(f.asked, "paths")
	return []string{"/data"}, nil
}

func (f *facts) Policy(context.Context) (map[string]string, error) {
	f.asked = append(f.asked, "policy")
	return map[string]string{"channels.ml": "n"}, f.err
}

func TestRenderOptions(t *testing.T) {
	const head = "kind: training\njob: {name: %}\nenvironment: {image: b}\n"
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "", errors.New("no"))
	cases := map[string]struct {
		text     string
		err      error
		want     render.Options
		asked    []string
		warnings int
		wantErr  bool
	}{
		"a job that depends on nothing asks nothing": {text: "resources: {gpu: 1}", want: render.Options{Namespace: "n"}},
		"each job asks for what it depends on": {
			text:  "resources: {gpu: 1, gpu-share: 1Gi, gpu-type: T4}\nstorage: {workdirs: [{path: /x}]}",
			want:  render.Options{Namespace: "n", SharedPools: map[string]bool{"p": true}, AliasedTypes: map[string]bool{"T4": true}, HostPaths: []string{"/data"}},
			asked: []string{"pools", "types T4", "paths"},
		},
		"a list of types matches every label anyway": {text: "resources: {gpu: 1, gpu-type: [T4]}", want: render.Options{Namespace: "n"}},
		"a claim is no path of a node":               {text: "storage: {workdirs: [{path: /x, pvc: c}]}", want: render.Options{Namespace: "n"}},
		"who may not list nodes gets the stock cluster": {
			text: "resources: {gpu: 1, gpu-share: 1Gi, gpu-type: T4}", err: forbidden, warnings: 1,
			want:  render.Options{Namespace: "n", SharedPools: map[string]bool{"p": true}, AliasedTypes: map[string]bool{"T4": true}},
			asked: []string{"pools", "types T4"},
		},
		"another error is one": {text: "resources: {gpu: 1, gpu-type: T4}", err: errors.New("no answer"), asked: []string{"types T4"}, wantErr: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			docs, diagnostics := workload.Parse("t", []byte(strings.Replace(head, "%", "a", 1)+tc.text))
			if diagnostics.HasErrors() {
				t.Fatal(diagnostics)
			}
			f := &facts{err: tc.err}
			got, warnings, err := RenderOptions(t.Context(), f, docs, "n")
			if (err != nil) != tc.wantErr || len(warnings) != tc.warnings {
				t.Errorf("got error %v and warnings %v", err, warnings)
			}
			if diff := cmp.Diff(tc.asked, f.asked); diff != "" {
				t.Errorf("questions (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" && !tc.wantErr {
				t.Errorf("options (-want +got):\n%s", diff)
			}
		})
	}
}
