package render

import (
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/workload"
)

// renderText parses and renders a document that is right.
func renderText(t *testing.T, text string, opts Options) ([]client.Object, []Warning) {
	t.Helper()
	docs, diagnostics := workload.Parse("test.yaml", []byte(text))
	if diagnostics.HasErrors() {
		t.Fatalf("diagnostics:\n%s", diagnostics)
	}
	objects, warnings, err := Objects(docs[0], opts)
	if err != nil {
		t.Fatal(err)
	}
	return objects, warnings
}

// podOf returns the pod template of a top object.
func podOf(t *testing.T, object client.Object) corev1.PodTemplateSpec {
	t.Helper()
	switch o := object.(type) {
	case *batchv1.Job:
		return o.Spec.Template
	case *appsv1.Deployment:
		return o.Spec.Template
	default:
		t.Fatalf("the top object is a %T", object)
		return corev1.PodTemplateSpec{}
	}
}

const training = "kind: training\njob: {name: a}\nenvironment: {image: b}\n"

func TestGPUShare(t *testing.T) {
	cases := map[string]struct {
		resources    string
		sharedPools  map[string]bool
		unknown      bool
		want         corev1.ResourceName
		wantWarnings []Warning
	}{
		"a pool that shares gives a part of each GPU, without a warning": {
			resources:   "{pool: p, gpu: 2, gpu-share: 2Gi}",
			sharedPools: map[string]bool{"p": true},
			want:        names.ResourceSharedGPU,
		},
		"any other pool gives whole GPUs and says so": {
			resources:   "{pool: q, gpu: 2, gpu-share: 2Gi}",
			sharedPools: map[string]bool{"p": true},
			want:        names.ResourceGPU,
			wantWarnings: []Warning{{
				Field:   "resources.gpu-share",
				Message: phrase.Quote("pool q does not share GPUs: the job gets 2 whole GPUs, and the share of 2Gi is only noted"),
			}},
		},
		"without a cluster nobody knows": {
			resources: "{pool: q, gpu: 2, gpu-share: 2Gi}",
			unknown:   true,
			want:      names.ResourceGPU,
			wantWarnings: []Warning{{
				Field:   "resources.gpu-share",
				Message: phrase.Quote("only the cluster knows whether pool q shares its GPUs: this is for one that does not, where the job gets 2 whole GPUs"),
			}},
		},
		"a job without gpu-share gets whole GPUs even where they are shared": {
			resources:   "{pool: p, gpu: 2}",
			sharedPools: map[string]bool{"p": true},
			want:        names.ResourceGPU,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			objects, warnings := renderText(t, training+"resources: "+tc.resources, Options{SharedPools: tc.sharedPools, PoolsUnknown: tc.unknown})
			if diff := cmp.Diff(tc.wantWarnings, warnings); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
			limits := podOf(t, objects[0]).Spec.Containers[0].Resources.Limits
			if got := limits[tc.want]; got.Value() != 2 || len(limits) != 1 {
				t.Errorf("got limits %v, want 2 of %s alone", limits, tc.want)
			}
		})
	}
}

func TestMinRuntimeIsOnThePods(t *testing.T) {
	for long, want := range map[string]string{"2h": "2h0m0s", "0s": "0s", "1d": "24h0m0s"} {
		objects, warnings := renderText(t, training+"resources: {gpu: 2, min-runtime: "+long+"}", Options{})
		if got := podOf(t, objects[0]).Annotations[names.AnnotationMinRuntime]; got != want || len(warnings) > 0 {
			t.Errorf("%s: the pods ask for %q, with the warnings %v", long, got, warnings)
		}
	}
}

// TestAProgramFindsWhatItIsTold in a file, where nothing else is.
func TestAProgramFindsWhatItIsTold(t *testing.T) {
	for text, want := range map[string]bool{
		"checkpoint-grace: 5m}": true, "checkpoint-grace: 0s}": false, "min-runtime: 5m}": false,
		"checkpoint-grace: 5m}\nstorage: {workdirs: [{path: /a, mount-path: /run/g8s/mine}]}":      false,
		"checkpoint-grace: 5m}\nstorage: {workdirs: [{path: /a, mount-path: /run}]}":               false,
		"checkpoint-grace: 5m}\nstorage: {workdirs: [{path: /preemption/notice, mount-path: /b}]}": true,
		"checkpoint-grace: 5m}\nstorage: {preemption-notice: {path: /a, mount-path: /preemption}}": false,
	} {
		objects, _ := renderText(t, training+"resources: {gpu: 2, "+text, Options{})
		pod := podOf(t, objects[0])
		at := slices.IndexFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.DownwardAPI != nil })
		if (at >= 0) != want {
			t.Errorf("%s: the file is there: %t", text, at >= 0)
			continue
		}
		if at < 0 {
			continue
		}
		volume := pod.Spec.Volumes[at]
		mounted := slices.ContainsFunc(pod.Spec.Containers[0].VolumeMounts, func(m corev1.VolumeMount) bool {
			return m.Name == volume.Name && m.MountPath == "/run/g8s" && m.ReadOnly
		})
		others := slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == volume.Name && v.DownwardAPI == nil })
		if file := volume.DownwardAPI.Items[0]; !mounted || others || file.FieldRef.FieldPath != "metadata.annotations['g8s.host/preemption-notice']" {
			t.Errorf("%s: %+v, mounted: %t, another has its name: %t", text, file, mounted, others)
		}
	}
}

func TestPreemptionOfAPoolIsInItsGPUPool(t *testing.T) {
	none := time.Duration(0)
	pool := &workload.Pool{Name: "p", MinRuntime: ptr.To(time.Hour), MaxMinRuntime: &none, CheckpointGrace: &none, MaxCheckpointGrace: ptr.To(time.Minute)}
	want := names.PoolDefaults{MinRuntime: "1h0m0s", MaxMinRuntime: "0s", CheckpointGrace: "0s", MaxCheckpointGrace: "1m0s"}
	if got := GPUPool(pool).Spec.Defaults; !NeedsGPUPool(pool) || got != want {
		t.Errorf("the GPUPool says %+v", got)
	}
}

func TestGPUTypesAreFoundByLabel(t *testing.T) {
	selected := map[string]string{names.LabelGPUType: "T4"}
	cases := map[string]struct {
		types        string
		aliased      map[string]bool
		wantSelector map[string]string
		wantListed   string
	}{
		"one type is selected by our label":                         {"T4", nil, selected, ""},
		"another type in an alias changes nothing":                  {"T4", map[string]bool{"A10": true}, selected, ""},
		"a type that some node has in an alias only is listed":      {"T4", map[string]bool{"T4": true}, nil, "T4"},
		"a list of one is listed, for all labels to be looked at":   {"[T4]", nil, nil, "T4"},
		"several types are listed in their order":                   {"[T4, A10]", nil, nil, "T4,A10"},
		"several types are listed, whichever labels nodes may have": {"[T4, A10]", map[string]bool{"A10": true}, nil, "T4,A10"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			objects, _ := renderText(t, training+"resources: {gpu: 1, gpu-type: "+tc.types+"}", Options{AliasedTypes: tc.aliased})
			pod := podOf(t, objects[0])
			if diff := cmp.Diff(tc.wantSelector, pod.Spec.NodeSelector); diff != "" {
				t.Errorf("node selector (-want +got):\n%s", diff)
			}
			if got := pod.Annotations[names.AnnotationGPUTypes]; got != tc.wantListed {
				t.Errorf("the annotation lists %q, want %q", got, tc.wantListed)
			}
		})
	}
}

func TestHostPathsAreBounded(t *testing.T) {
	cases := map[string]struct {
		storage string
		allowed []string
		want    string
	}{
		"no list allows all":                {"workdirs: [{path: /etc}]", nil, ""},
		"an empty list allows none":         {"workdirs: [{path: /etc}]", []string{}, "storage.workdirs[0]: the administrator does not allow jobs to mount /etc of the node (no path is allowed): use pvc or size, or ask for it"},
		"the path itself":                   {"workdirs: [{path: /data/}]", []string{"/data"}, ""},
		"what is below":                     {"workdirs: [{path: /data/a/b}]", []string{"/data/"}, ""},
		"a longer name is not below":        {"workdirs: [{path: /data2}]", []string{"/data"}, "storage.workdirs[0]: the administrator does not allow jobs to mount /data2 of the node (allowed: /data): use pvc or size, or ask for it"},
		"a folder above":                    {"workdirs: [{path: /data}, {path: /}]", []string{"/data"}, "mount /"},
		"the root allows all":               {"workdirs: [{path: /etc}]", []string{"/"}, ""},
		"claims are no paths of nodes":      {"workdirs: [{path: /etc, pvc: c}]", []string{}, ""},
		"a named volume is bounded as well": {"x: {path: /etc}", []string{"/data"}, "storage.x: the administrator"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			docs, _ := workload.Parse("t", []byte(training+"storage: {"+strings.Replace(tc.storage, "path: /}", "path: /, mount-path: /x}", 1)+"}"))
			objects, _, err := Objects(docs[0], Options{HostPaths: tc.allowed})
			got := ""
			if err != nil {
				got = err.Error()
			}
			if (tc.want == "") != (err == nil) || !strings.Contains(got, tc.want) {
				t.Errorf("got error %q, want %q", got, tc.want)
			}
			if err != nil && len(objects) > 0 {
				t.Error("there are objects of a job that is refused")
			}
		})
	}
}

func TestSharedMemory(t *testing.T) {
	cases := map[string]struct {
		document string
		want     string // "none", or the size limit, which may be empty
	}{
		"half of the memory when GPUs are asked":              {"resources: {gpu: 1, memory: 64Gi}", "32Gi"},
		"no limit of its own when the job limits no memory":   {"resources: {gpu: 1}", ""},
		"none without GPUs":                                   {"resources: {memory: 64Gi}", "none"},
		"as large as asked, also without GPUs":                {"resources: {memory: 64Gi, shm: 1Gi}", "1Gi"},
		"none when 0 is asked":                                {"resources: {gpu: 1, shm: 0}", "none"},
		"none of ours when a workdir is mounted in its place": {"resources: {gpu: 1}\nstorage: {workdirs: [{path: /dev/shm/}]}", "none"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			objects, _ := renderText(t, training+tc.document, Options{})
			got := "none"
			for _, v := range podOf(t, objects[0]).Spec.Volumes {
				if v.EmptyDir == nil {
					continue
				}
				got = ""
				if v.EmptyDir.SizeLimit != nil {
					got = v.EmptyDir.SizeLimit.String()
				}
			}
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestVolumeNames(t *testing.T) {
	cases := map[string]struct {
		paths, want []string
	}{
		"the first well-known folder of the path names the volume": {
			paths: []string{"/home/data/models", "/mnt/workspace/x"}, want: []string{"data-volume", "work-volume"},
		},
		"a taken name gives way to the next folder of the path": {
			paths: []string{"/output/a", "/output/a/checkpoints"}, want: []string{"output-volume", "checkpoints-volume"},
		},
		"when all are taken, the first one gets a number": {
			paths: []string{"/data", "/data/b", "/data/c"}, want: []string{"data-volume", "data-volume-2", "data-volume-3"},
		},
		"a path without a well-known folder is numbered by its place": {
			paths: []string{"/data", "/opt/x", "/opt/y"}, want: []string{"data-volume", "workdir-2", "workdir-3"},
		},
		"only whole folders count": {
			paths: []string{"/mydata/modelsx"}, want: []string{"workdir-1"},
		},
		"upper case is the same folder": {
			paths: []string{"/Datasets/x"}, want: []string{"dataset-volume"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			taken := volumeNames{}
			var got []string
			for _, path := range tc.paths {
				got = append(got, taken.nextName(path))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("names (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNamedVolumesKeepTheirNames(t *testing.T) {
	objects, _ := renderText(t, training+"storage:\n  workdirs: [{path: /data}]\n  data-volume: {mount-path: /x, path: /y}\n", Options{})
	var got []string
	for _, v := range podOf(t, objects[0]).Spec.Volumes {
		got = append(got, v.Name)
	}
	if diff := cmp.Diff([]string{"data-volume-2", "data-volume"}, got); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
}

func TestNamespace(t *testing.T) {
	const inNLP = "kind: inference\njob: {name: a, namespace: nlp}\nenvironment: {image: b}\n" +
		"storage: {workdirs: [{path: /x, size: 1Gi}]}\n"
	const inNone = "kind: inference\njob: {name: a}\nenvironment: {image: b}\n" +
		"storage: {workdirs: [{path: /x, size: 1Gi}]}\n"
	cases := map[string]struct {
		document, option, want string
	}{
		"the document's comes before the caller's": {inNLP, "other", "nlp"},
		"the caller's fills in":                    {inNone, "other", "other"},
		"none stays none":                          {inNone, "", ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			objects, _ := renderText(t, tc.document, Options{Namespace: tc.option})
			if len(objects) != 3 {
				t.Fatalf("got %d objects, want a Deployment, a Service and a claim", len(objects))
			}
			for _, o := range objects {
				if o.GetNamespace() != tc.want {
					t.Errorf("%s is in namespace %q, want %q", o.GetName(), o.GetNamespace(), tc.want)
				}
			}
		})
	}
}

func TestSubmittedDocumentIsKeptOnTheTopObjectOnly(t *testing.T) {
	const text = "# why\nkind: inference\njob: {name: a}\nenvironment: {image: b}\n"
	objects, _ := renderText(t, text, Options{})
	if got := objects[0].GetAnnotations()[names.AnnotationSubmitted]; got != text {
		t.Errorf("got %q, want the document", got)
	}
	for _, o := range objects[1:] {
		if _, ok := o.GetAnnotations()[names.AnnotationSubmitted]; ok {
			t.Errorf("%s has it too", o.GetName())
		}
	}
}

// FuzzObjects checks that whatever parses can be rendered and printed.
func FuzzObjects(f *testing.F) {
	f.Add("kind: compute\njob: {name: a}\nenvironment: {image: b}\nservice: {port: 1}\nresources: {gpu: 1, memory: 1Mi}\n")
	f.Add("kind: pool\nmetadata: {name: a}\nnodes: [b]\n")
	f.Add(training + "storage: {workdirs: [{path: /data}, {path: /data/data, size: 1Gi}]}\n")
	f.Fuzz(func(t *testing.T, text string) {
		docs, _ := workload.Parse("fuzz.yaml", []byte(text))
		for _, doc := range docs {
			objects, _, err := Objects(doc, Options{})
			if err != nil {
				t.Fatal(err)
			}
			if err := WriteYAML(io.Discard, objects); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestTheTimeLimitOfAnArrayIsThatOfATask: the deadline of its Job would end them all. Pods of other jobs have one that comes after
// the Job's.
func TestTheTimeLimitOfAnArrayIsThatOfATask(t *testing.T) {
	for array, want := range map[string][2]int64{"": {90, 150}, ", array: 0-99%10": {0, 90}} {
		text := "kind: training\njob: {name: a" + array + "}\nenvironment: {image: b}\nresources: {time-limit: 90s}\n"
		objects, _ := renderText(t, text, Options{})
		job := objects[0].(*batchv1.Job)
		got := [2]int64{ptr.Deref(job.Spec.ActiveDeadlineSeconds, 0), ptr.Deref(job.Spec.Template.Spec.ActiveDeadlineSeconds, 0)}
		if got != want {
			t.Errorf("array %q: the deadlines of the Job and of its pods are %v, want %v", array, got, want)
		}
	}
}

// TestABrokenArrayEnds when most of its tasks have failed, and a small one when all have.
func TestABrokenArrayEnds(t *testing.T) {
	for array, want := range map[string]int32{"0-99%10": 50, "0-14": 10, "0-10": 10, "0-9": 0, "0-0": 0} {
		objects, _ := renderText(t, "kind: training\njob: {name: a, array: "+array+"}\nenvironment: {image: b}\n", Options{})
		if got := ptr.Deref(objects[0].(*batchv1.Job).Spec.MaxFailedIndexes, 0); got != want {
			t.Errorf("%s ends when more than %d tasks have failed, want %d", array, got, want)
		}
	}
}

func TestWhatAPresetFilledIsNotedOnTheTopObject(t *testing.T) {
	for name, tc := range map[string]struct{ resources, filled, want string }{
		"some fields":      {"{preset: small, gpu: 1}", "{gpu: 1}", "{gpu: 1}"},
		"none":             {"{preset: small, gpu: 1}", "{}", "{}"},
		"nobody knows":     {"{preset: small, gpu: 1}", "", ""},
		"it has gone":      {"{gpu: 1}", "{gpu: 1}", ""},
		"it never had one": {"{gpu: 1}", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			docs, diagnostics := workload.Parse("", []byte("kind: training\njob: {name: a}\nenvironment: {image: i}\nresources: "+tc.resources+"\n"))
			if diagnostics.HasErrors() {
				t.Fatal(diagnostics)
			}
			docs[0].Filled = tc.filled
			objects, _, err := Objects(docs[0], Options{})
			if err != nil {
				t.Fatal(err)
			}
			got, noted := objects[0].GetAnnotations()[names.AnnotationPresetFilled]
			if got != tc.want || noted != (tc.want != "") {
				t.Errorf("it is noted as %q, want %q", got, tc.want)
			}
		})
	}
}
