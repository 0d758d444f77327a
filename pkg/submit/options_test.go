package submit

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"g8s.host/gpu-scheduler/pkg/quota"
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
	// defaults are the GPUs that limit ranges give, by namespace.
	defaults map[string][]quota.Default
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

func (f *facts) GPUDefaults(_ context.Context, namespace string) ([]quota.Default, error) {
	return f.defaults[namespace], nil
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

// TestJobsAskForNoneOfTheGPUsThatLimitRangesGive, each in its namespace; one without GPUs is warned of. Where a LimitRange refuses
// containers without GPUs, asking for 0 would keep the job out.
func TestJobsAskForNoneOfTheGPUsThatLimitRangesGive(t *testing.T) {
	given := quota.Default{Range: "gpu-limits", Resource: "nvidia.com/gpu", Amount: resource.MustParse("1")}
	forced := given
	forced.Forced = true
	tests := map[string]struct {
		job, resources string
		defaults       map[string][]quota.Default
		want           map[string][]corev1.ResourceName
		says           string
	}{
		"no limit range": {job: "{name: a}", resources: "{cpu: 1}"},
		"a job without GPUs": {job: "{name: a}", resources: "{cpu: 1}", defaults: map[string][]quota.Default{"n": {given}},
			want: map[string][]corev1.ResourceName{"n": {"nvidia.com/gpu"}}, says: "gpuctl asks for 0"},
		"a job with GPUs": {job: "{name: a}", resources: "{gpu: 1}", defaults: map[string][]quota.Default{"n": {given}},
			want: map[string][]corev1.ResourceName{"n": {"nvidia.com/gpu"}}},
		"another namespace": {job: "{name: a, namespace: other}", resources: "{cpu: 1}", defaults: map[string][]quota.Default{"n": {given}}},
		"one that wants GPUs in all containers": {job: "{name: a}", resources: "{cpu: 1}", defaults: map[string][]quota.Default{"n": {forced}},
			says: "the pods of this job get it"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			docs, problems := workload.Parse("t", []byte("kind: training\njob: "+tc.job+"\nenvironment: {image: b}\nresources: "+tc.resources+"\n"))
			if problems.HasErrors() {
				t.Fatal(problems)
			}
			opts, warnings, err := RenderOptions(t.Context(), &facts{defaults: tc.defaults}, docs, "n")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, opts.DefaultedGPUs); diff != "" {
				t.Errorf("what the jobs ask for none of (-want +got):\n%s", diff)
			}
			if tc.says == "" && len(warnings) > 0 || tc.says != "" && (len(warnings) != 1 || !strings.Contains(warnings[0].String(), tc.says)) {
				t.Errorf("got warnings %q, want one with %q", warnings, tc.says)
			}
		})
	}
}
