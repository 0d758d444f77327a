package workload

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// equalQuantities compares quantities by their amount.
var equalQuantities = cmp.Comparer(func(a, b resource.Quantity) bool { return a.Cmp(b) == 0 })

func quantity(s string) *resource.Quantity {
	return ptr.To(resource.MustParse(s))
}

// parseOne parses a text that must be one right document.
func parseOne(t *testing.T, text string) Document {
	t.Helper()
	docs, diagnostics := Parse("test.yaml", []byte(text))
	if len(diagnostics) > 0 {
		t.Fatalf("diagnostics:\n%s", diagnostics)
	}
	if len(docs) != 1 {
		t.Fatalf("got %d documents, want 1", len(docs))
	}
	return docs[0]
}

func TestParseFillsInDefaults(t *testing.T) {
	environment := Environment{Image: "b", Distributed: DistributedAuto}
	resources := Resources{Pool: "default", Nodes: 1}
	cases := map[Kind]Job{
		KindTraining: {Retries: 3},
		KindInference: {Retries: 3, Service: &Service{
			Replicas: 1, Port: 8000, TargetPort: 8000, Type: corev1.ServiceTypeClusterIP, StartupTimeout: 30 * time.Minute,
		}},
		KindNotebook: {Retries: 3, Service: &Service{
			Replicas: 1, Port: 8888, TargetPort: 8888, Type: corev1.ServiceTypeNodePort, StartupTimeout: 30 * time.Minute,
		}},
		KindCompute: {Retries: 3, Service: &Service{
			Replicas: 1, Type: corev1.ServiceTypeNodePort, StartupTimeout: 30 * time.Minute,
		}},
	}
	for kind, want := range cases {
		t.Run(string(kind), func(t *testing.T) {
			want.Kind, want.Name, want.Priority = kind, "a", PriorityMedium
			want.Environment, want.Resources = environment, resources
			got := parseOne(t, "kind: "+string(kind)+"\njob: {name: a}\nenvironment: {image: b}\n")
			if diff := cmp.Diff(&want, got.Job, equalQuantities); diff != "" {
				t.Errorf("job (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseReadsEveryField(t *testing.T) {
	got := parseOne(t, `kind: training
version: v0.1
job: {name: a, namespace: nlp, priority: low, description: "说明", ttl: 1d12h, retries: 0}
environment:
  image: registry.example.com/b:1
  image-pull-policy: Never
  image-pull-secret: login
  command: [python, -c, 1e-5]
  args: [--epochs, 3, true]
  distributed: none
resources:
  nodes: 2
  pool: train
  gpu: 4
  gpu-type: [A100-80G, A800-80G]
  gpu-share: 2Gi
  cpu: 500m
  memory: 1.5Gi
  shm: 1Gi
  tolerations: [{key: k, operator: Equal, value: v, effect: NoExecute, toleration-seconds: 60}]
  time-limit: 90m
storage:
  workdirs:
    - {path: /a, mount-path: /b, read-only: true, type: File}
    - {path: /c, pvc: claim}
    - {mount-path: /d, size: 10Gi, storage-class: fast}
  scratch: {mountPath: /e, size: 1Ti, storageClass: slow}
`)
	want := &Job{
		Kind: KindTraining, Name: "a", Namespace: "nlp", Priority: PriorityLow, Description: "说明",
		TTL: ptr.To(36 * time.Hour), Retries: 0,
		Environment: Environment{
			Image: "registry.example.com/b:1", ImagePullPolicy: corev1.PullNever, ImagePullSecret: "login",
			Command: []string{"python", "-c", "1e-5"}, Args: []string{"--epochs", "3", "true"}, Distributed: DistributedNone,
		},
		Resources: Resources{
			Pool: "train", Nodes: 2, GPU: 4, GPUTypes: []string{"A100-80G", "A800-80G"}, GPUTypesListed: true, GPUShare: quantity("2Gi"),
			CPU: quantity("0.5"), Memory: quantity("1536Mi"), SHM: quantity("1Gi"),
			Tolerations: []corev1.Toleration{{
				Key: "k", Operator: corev1.TolerationOpEqual, Value: "v",
				Effect: corev1.TaintEffectNoExecute, TolerationSeconds: ptr.To[int64](60),
			}},
			TimeLimit: ptr.To(90 * time.Minute),
		},
		Storage: Storage{Workdirs: []Workdir{
			{Path: "/a", MountPath: "/b", ReadOnly: true, Type: corev1.HostPathFile},
			{MountPath: "/c", Claim: "claim"},
			{MountPath: "/d", Size: quantity("10Gi"), StorageClass: "fast"},
		}, Volumes: []Volume{
			{Name: "scratch", Workdir: Workdir{MountPath: "/e", Size: quantity("1Ti"), StorageClass: "slow"}},
		}},
	}
	if diff := cmp.Diff(want, got.Job, equalQuantities); diff != "" {
		t.Errorf("job (-want +got):\n%s", diff)
	}
	if got.Namespace != "nlp" || got.Name != "a" || got.Kind != KindTraining {
		t.Errorf("got document %s %s/%s", got.Kind, got.Namespace, got.Name)
	}
}

func TestParseReadsEverySpelling(t *testing.T) {
	cases := map[string]string{
		"kebab": "resources: {gpu: 1, gpu-type: T4}\nservice: {health-check: /x, startup-timeout: 1m, target-port: 9}\n",
		"camel": "resources: {gpu: 1, gpuType: T4}\nservice: {healthCheck: /x, startupTimeout: 1m, targetPort: 9}\n",
		"snake": "resources: {gpu: 1, gpu_type: T4}\nservice: {health_check: /x, startup_timeout: 1m, target_port: 9}\n",
	}
	for name, text := range cases {
		t.Run(name, func(t *testing.T) {
			job := parseOne(t, "kind: inference\njob: {name: a}\nenvironment: {image: b}\n"+text).Job
			if job.Resources.GPUTypes[0] != "T4" || job.Service.HealthCheck != "/x" ||
				job.Service.StartupTimeout != time.Minute || job.Service.TargetPort != 9 {
				t.Errorf("got %+v and %+v", job.Resources, job.Service)
			}
		})
	}
}

func TestParseReadsEveryFormOfVariables(t *testing.T) {
	secret := &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
		LocalObjectReference: corev1.LocalObjectReference{Name: "s"}, Key: "k",
	}}
	cases := map[string]struct {
		env  string
		want []corev1.EnvVar
	}{
		"list of name and value": {
			"[{name: A, value: x}, {name: B}]", []corev1.EnvVar{{Name: "A", Value: "x"}, {Name: "B"}},
		},
		"list of NAME: value": {
			"[{A: x}, {B: y}]", []corev1.EnvVar{{Name: "A", Value: "x"}, {Name: "B", Value: "y"}},
		},
		"section, in its order": {
			"{B: y, A: x}", []corev1.EnvVar{{Name: "B", Value: "y"}, {Name: "A", Value: "x"}},
		},
		"numbers and booleans as they are written": {
			"{A: 007, B: yes, C: 1e3, D: 2025-01-01}",
			[]corev1.EnvVar{{Name: "A", Value: "007"}, {Name: "B", Value: "yes"}, {Name: "C", Value: "1e3"}, {Name: "D", Value: "2025-01-01"}},
		},
		"a source, in Kubernetes' own spelling": {
			"[{name: A, valueFrom: {secretKeyRef: {name: s, key: k}}}]", []corev1.EnvVar{{Name: "A", ValueFrom: secret}},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			job := parseOne(t, "kind: training\njob: {name: a}\nenvironment:\n  image: b\n  env: "+tc.env+"\n").Job
			if diff := cmp.Diff(tc.want, job.Environment.Env); diff != "" {
				t.Errorf("env (-want +got):\n%s", diff)
			}
		})
	}
}

// TestControlsAreRefused: what people are shown of a job must be what it says.
func TestControlsAreRefused(t *testing.T) {
	const want = "contains the control character "
	cases := map[string]struct{ yaml, want string }{
		"a title of the terminal, as a description": {`job: {name: a, description: "\e]0;x\a"}`, want + "U+001B"},
		"eight bits, as a description":              {`job: {name: a, description: "\u009b2J"}`, want + "U+009B: leave it out"},
		"text that turns around":                    {`job: {name: a, description: "x\u202egnp.exe"}`, want + "U+202E"},
		"a wipe, as a variable":                     {`{job: {name: a}, environment: {image: b, env: {A: "\e[2J"}}}`, want + "U+001B"},
		"a wipe, as a variable of a list":           {`{job: {name: a}, environment: {image: b, env: [{name: A, value: "\e[2J"}]}}`, want + "U+001B"},
		"a NUL, as a command":                       {`{job: {name: a}, environment: {image: b, command: [sh, "\0"]}}`, want + "U+0000"},
		"a path that turns around":                  {`{job: {name: a}, environment: {image: b}, storage: {workdirs: [{path: "/\u2066"}]}}`, "contains a control character"},
		"an image with a control":                   {`{job: {name: a}, environment: {image: "b\e[2J"}}`, want + "U+001B"},
		"lines, tabs and other scripts":             {`{job: {name: a, description: "说明\n\tעברית"}, environment: {image: b, command: [sh, -c, "a\r\nb\n"]}}`, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			text := tc.yaml
			if !strings.Contains(text, "environment") {
				text = "{" + text + ", environment: {image: b}}"
			}
			_, diagnostics := Parse("<stdin>", []byte(strings.Replace(text, "{", "{kind: training, ", 1)))
			got := diagnostics.String()
			if strings.ContainsFunc(got, func(r rune) bool { return r != '\n' && IsControl(r) }) {
				t.Errorf("the diagnostics have controls themselves: %q", got)
			}
			if (tc.want == "") != (got == "") || !strings.Contains(got, tc.want) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestParseReadsEveryFormOfPools(t *testing.T) {
	want := &Pool{Name: "p", Description: "d", Nodes: []PoolNode{{Name: "n1", GPUType: "T4"}, {Name: "n2"}}}
	cases := map[string]string{
		"metadata with a section of nodes": "kind: pool\nmetadata: {name: p, description: d}\nnodes: {n1: {gpu-type: T4}, n2: {}}\n",
		"hosts without anything below":     "kind: pool\nmetadata: {name: p, description: d}\nnodes:\n  n1:\n    gpuType: T4\n  n2:\n",
		"pool with a list":                 "kind: pool\npool: {name: p, description: d}\nnodes: [{name: n1, gpu-type: T4}, n2]\n",
		"metadata and spec":                "kind: pool\nmetadata: {name: p, description: d}\nspec: {nodes: {n1: {gpu-type: T4}, n2: {}}}\n",
		"description in spec":              "kind: pool\nversion: v1\nmetadata: {name: p}\nspec: {description: d, nodes: {n1: {gpu-type: T4}, n2: {}}}\n",
		"kind resource":                    "kind: resource\npool: {name: p, description: d}\nnodes: {n1: {gpu-type: T4}, n2: {}}\n",
	}
	for name, text := range cases {
		t.Run(name, func(t *testing.T) {
			got := parseOne(t, text)
			if diff := cmp.Diff(want, got.Pool); diff != "" {
				t.Errorf("pool (-want +got):\n%s", diff)
			}
			if got.Kind != KindPool || got.Name != "p" {
				t.Errorf("got document %s %s", got.Kind, got.Name)
			}
		})
	}
}

func TestParseReadsEveryFormOfQuotas(t *testing.T) {
	want := &Quota{Name: "q", Description: "d", Namespaces: []NamespaceQuota{
		{Namespace: "default", GPU: ptr.To[int64](2), SharedGPU: ptr.To[int64](2), CPU: quantity("20"), Memory: quantity("40Gi")},
		{Namespace: "alice", GPU: ptr.To[int64](0), SharedGPU: ptr.To[int64](4), Storage: quantity("1Ti"), Pods: ptr.To[int64](9)},
	}}
	const def = "default: {cpu: 20, memory: 40Gi, gpu: 2}"
	cases := map[string]string{
		"quota with namespaces at the top": "kind: quota\nquota: {name: q, description: d}\n" + def +
			"\nnamespace: {alice: {gpu: 0, shared-gpu: 4, storage: 1Ti, pods: 9}}\n",
		"metadata": "kind: quota\nmetadata: {name: q, description: d}\n" + def +
			"\nnamespaces: {alice: {gpu: 0, shared_gpu: 4, storage: 1Ti, pods: 9}}\n",
		"metadata and spec": "kind: quota\nmetadata: {name: q, description: d}\nspec:\n  " + def +
			"\n  namespace: {alice: {gpu: 0, sharedGpu: 4, storage: 1Ti, pods: 9}}\n",
		"a list of namespaces": "kind: quota\nquota: {name: q, description: d}\nnamespace:\n" +
			"- {name: default, cpu: 20, memory: 40Gi, gpu: 2}\n- {name: alice, gpu: 0, shared-gpu: 4, storage: 1Ti, pods: 9}\n",
	}
	for name, text := range cases {
		t.Run(name, func(t *testing.T) {
			got := parseOne(t, text)
			if diff := cmp.Diff(want, got.Quota, equalQuantities); diff != "" {
				t.Errorf("quota (-want +got):\n%s", diff)
			}
			if got.Kind != KindQuota || got.Name != "q" {
				t.Errorf("got document %s %s", got.Kind, got.Name)
			}
		})
	}
}

func TestParseReadsAQuotaOfOneNamespace(t *testing.T) {
	want := &Quota{Name: "q", Namespaces: []NamespaceQuota{
		{Namespace: "alice", GPU: ptr.To[int64](2), SharedGPU: ptr.To[int64](2), CPU: quantity("10"), Memory: quantity("20Gi")},
	}}
	for name, text := range map[string]string{
		"spec after metadata":  "kind: quota\nversion: v1\nmetadata: {name: q, namespace: alice}\nspec: {cpu: 10, memory: 20Gi, gpu: 2}\n",
		"spec before metadata": "kind: quota\nspec: {cpu: 10, memory: 20Gi, gpu: 2}\nmetadata: {name: q, namespace: alice}\n",
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(want, parseOne(t, text).Quota, equalQuantities); diff != "" {
				t.Errorf("quota (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseSplitsDocuments(t *testing.T) {
	text := "# a file\n---\nkind: pool # first\nmetadata: {name: p}\nnodes: [n]\n\n---\n# nothing here\n--- # second\n" +
		"kind: pool\nmetadata:\n  name: q\n  description: |\n    --- not a marker\nnodes: [n]\n...\n"
	docs, diagnostics := Parse("test.yaml", []byte(text))
	if len(diagnostics) > 0 {
		t.Fatalf("diagnostics:\n%s", diagnostics)
	}
	type part struct {
		Name   string
		Line   int
		Source string
	}
	want := []part{
		{"p", 3, "kind: pool # first\nmetadata: {name: p}\nnodes: [n]\n"},
		{"q", 10, "# nothing here\n--- # second\nkind: pool\nmetadata:\n  name: q\n  description: |\n    --- not a marker\nnodes: [n]\n"},
	}
	var got []part
	for _, doc := range docs {
		got = append(got, part{doc.Name, doc.Line, doc.Source})
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("documents (-want +got):\n%s", diff)
	}
}

func TestParseReturnsOnlyDocumentsWithoutErrors(t *testing.T) {
	docs, diagnostics := Parse("test.yaml", []byte("kind: pool\nmetadata: {name: p}\nnodes: [n]\n---\nkind: pool\nmetadata: {name: p p}\nnodes: [n]\n"))
	if len(docs) != 1 || !diagnostics.HasErrors() {
		t.Errorf("got %d documents and diagnostics:\n%s", len(docs), diagnostics)
	}
}

func TestParseReadsFilesOfWindows(t *testing.T) {
	text := "\ufeff" + strings.ReplaceAll("kind: pool\nmetadata:\n  name: p\nnodes: [n]\n", "\n", "\r\n")
	if got := parseOne(t, text); got.Name != "p" {
		t.Errorf("got name %q", got.Name)
	}
}

// FuzzParse checks that no text makes the parser panic or report a place outside of the text, and that every
// text gives either documents or an error.
func FuzzParse(f *testing.F) {
	for _, seed := range fuzzSeeds {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		docs, diagnostics := Parse("fuzz.yaml", data)
		if len(docs) == 0 && !diagnostics.HasErrors() {
			t.Fatal("neither a document nor an error")
		}
		lines := len(splitLines(string(data))) + 1
		for _, d := range diagnostics {
			if d.Line < 0 || d.Line > lines || d.Column < 0 {
				t.Fatalf("position outside of the %d lines: %s", lines, d)
			}
			_ = d.String()
		}
	})
}

var fuzzSeeds = []string{
	"", "#", "---", "...", "\t", "kind: pool\n", "a: &a [*a]", "kind: *x", "<<: {}", "? [a]\n: b", "!!binary a", "\xff", "\ufeff",
	"%YAML 1.2\n---\nkind: training\n", "kind: training\njob: {name: a}\nenvironment: {image: b, env: {A: 1}}\n",
	"kind: inference\njob: {name: a}\nenvironment: {image: b}\nservice: {port: 1, health_check: /}\nstorage: {workdirs: [{path: /a}]}\n",
	"kind: pool\nmetadata: {name: p}\nnodes: {a: {gpu-type: b}}\n---\nkind: pool\npool: {name: q}\nnodes: [a, {name: b}]\n",
	"kind: quota\nquota: {name: q}\ndefault: {gpu: 1}\nnamespace: {a: {cpu: 1}, default: {}}\nspec: {namespace: [a, {name: b}]}\n",
	"kind: training\njob:\n  name: a\n foo\n", "kind: training\nresources: {tolerations: [1, {}, ~], gpu-type: [a, a, ~]}\n",
}

func TestConstraintsOfAPool(t *testing.T) {
	const head = "kind: pool\nmetadata: {name: p}\nnodes: [n]\nconstraints:\n"
	docs, problems := Parse("pool.yaml", []byte(head+"  gpu-types: [A100-80G, A800-80G]\n  min-node: {gpu: 8, gpu-memory: 80Gi, cpu: 64, memory: 512Gi}\n"+
		"  region: r1\n  zones: [a, b]\n  min-healthy-nodes: 4\n  min-zones: 2\n"))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	want := names.PoolConstraints{
		GPUTypes: []string{"A100-80G", "A800-80G"}, Regions: []string{"r1"}, Zones: []string{"a", "b"},
		MinNode:         names.NodeMinimum{GPUs: ptr.To[int32](8), GPUMemory: quantity("80Gi"), CPU: quantity("64"), Memory: quantity("512Gi")},
		MinHealthyNodes: ptr.To[int32](4), MinZones: ptr.To[int32](2),
	}
	if diff := cmp.Diff(want, docs[0].Pool.Constraints); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	docs, problems = Parse("pool.yaml", []byte("kind: pool\nmetadata: {name: p}\nnodes: [n]\naccess: {namespaces: [a, b], priorities: high}\n"))
	if access := (names.PoolAccess{Namespaces: []string{"a", "b"}, Priorities: []names.PoolPriority{"high"}}); len(problems) > 0 || !cmp.Equal(access, docs[0].Pool.Access) {
		t.Errorf("%v, access %+v", problems, docs)
	}
	if _, problems := Parse("pool.yaml", []byte("kind: pool\nmetadata: {name: p}\nnodes: [n]\naccess: {priority: urgent}\n")); len(problems) == 0 {
		t.Error("a priority that is none is accepted")
	}
	for text, want := range map[string]string{
		"  min-zones: 3\n  zones: [a, b]\n": "min-zones is 3, and there are 2 zones",
		"  min-node: {gpu: -1}\n":           "is less than 0",
		"  min-node: {memory: lots}\n":      "is not an amount of memory",
		"  zone: [a, a]\n":                  "is in the list already",
		"  gpu-typ: T4\n":                   "gpu-type",
	} {
		if _, problems := Parse("pool.yaml", []byte(head+text)); len(problems) == 0 || !strings.Contains(problems[0].Message, want) {
			t.Errorf("%q: %v, want %q", text, problems, want)
		}
	}
}

func TestTheBeginningOfAName(t *testing.T) {
	const text = "kind: notebook\njob: {generate-name: lab-}\nenvironment: {image: b}\n"
	docs, diagnostics := Parse("t", []byte(text+"---\n"+text))
	if len(diagnostics) > 0 || len(docs) != 2 {
		t.Fatalf("the same beginning twice: %d documents, %s", len(docs), diagnostics)
	}
	for _, doc := range docs {
		if !doc.GeneratesName() || doc.Name != "lab-xxxxx" || doc.Job.Name != doc.Name {
			t.Errorf("names itself: %t, name %q, of the job %q", doc.GeneratesName(), doc.Name, doc.Job.Name)
		}
	}
}
