package workload

import (
	"time"

	"go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/spelling"
	"g8s.host/gpu-scheduler/pkg/topology"
)

// serviceKinds are the kinds that have a service section.
var serviceKinds = []Kind{KindInference, KindNotebook, KindCompute}

// Bounds of whole numbers.
const (
	// maxGPUs is more than any node has, and too small for sums of GPUs to overflow.
	maxGPUs     = 1024
	maxReplicas = 1000
	// maxNodeCount bounds the last host name of a gang, and the list of all host names.
	maxNodeCount = 1000
	maxRetries   = 1000
	// MaxTasks is the maximum for an array. The pods of all tasks stay until the job is deleted, and every client that lists pods reads them.
	MaxTasks = 1000
	maxPort  = 65535
)

// headFields begin every document. They are read before the table is known, see findKind.
func headFields(kind Kind) fields {
	return fields{
		{name: "kind", required: true, value: value{describe: "kind", decode: func(*decoder, *yaml.Node, string) {}},
			example: string(kind), doc: "What the document describes."},
		{name: "version", value: versionValue(), def: Version, example: Version,
			doc: "The version of this YAML; " + versionAlias + " is another name of it."},
	}
}

// versionValue accepts one version under two names, so that only one word can be chosen.
func versionValue() value {
	var version string
	v := choiceValue(&version, Version, versionAlias)
	v.words = v.words[:1]
	return v
}

// Bounds of idle timeouts. Below the minimum, a coffee break would cost a user the notebook; above the maximum, too much history would be read for
// one job.
const (
	MinIdleTimeout = 10 * time.Minute
	MaxIdleTimeout = 72 * time.Hour
)

// jobFields is the table of the four kinds of jobs. It decodes into j.
func jobFields(j *Job) fields {
	fs := append(headFields(j.Kind),
		field{name: "job", required: true, value: sectionValue(identityFields(j)), doc: "What the job is called, and how it is treated."},
		field{name: "environment", required: true, value: sectionValue(environmentFields(&j.Environment)), doc: "What runs."},
		field{name: "resources", typical: true, value: sectionValue(resourcesFields(&j.Resources)), doc: "What each pod of the job asks for."},
	)
	if j.Service != nil {
		fs = append(fs, field{name: "service", only: serviceKinds, value: sectionValue(serviceFields(j.Service, j.Kind)),
			doc: "How the job is reached, and how many copies of it run."})
	} else {
		fs = append(fs, field{name: "service", only: serviceKinds})
	}
	return append(fs, field{name: "storage", value: sectionValue(storageFields(&j.Storage)), doc: "What is mounted into the container."})
}

// nameLimits is the maximum length of a job name by kind: the objects are called inference-<name>, svc-<name> and so on, and none of these may have
// more than 63 characters.
var nameLimits = map[Kind]int{KindTraining: 63, KindInference: 53, KindNotebook: 54, KindCompute: 55}

// exampleNames are names of jobs. Each kind has its own: a user who tries all of them in one namespace meets no conflict.
var exampleNames = map[Kind]string{
	KindTraining: "qwen2-7b-sft", KindInference: "qwen2-7b-chat", KindNotebook: "qwen2-notebook", KindCompute: "qwen2-preprocess",
}

func identityFields(j *Job) fields {
	training := []Kind{KindTraining}
	return fields{
		{name: "name", required: true, instead: "generate-name", value: scalarValue(&j.Name, "name", dnsLabel(nameLimits[j.Kind])), example: exampleNames[j.Kind],
			doc: "The name of the job: lower-case letters, digits and '-'. At most 63 characters for training, " +
				"53 for inference, 54 for notebook, 55 for compute."},
		{name: "generate-name", excludes: []string{"name"}, value: scalarValue(&j.GenerateName, "beginning of a name", namePrefix(nameLimits[j.Kind])), def: "none", example: "sft-",
			doc: "The beginning of the name, instead of the name: gpuctl create adds five random characters to it each time, so that one file makes a job each time it is submitted."},
		{name: "namespace", value: scalarValue(&j.Namespace, "name", dnsLabel(63)), def: "that of the command line", example: "nlp-team",
			doc: "The Kubernetes namespace to create the job in."},
		{name: "priority", value: choiceValue(&j.Priority, PriorityHigh, PriorityMedium, PriorityLow),
			def: "medium", example: "high",
			doc: "Jobs of higher priority are placed first; high ones may stop others to get their GPUs."},
		{name: "queue", value: scalarValue(&j.Queue, "name", dnsLabel(63)), def: "none", example: "team-a",
			doc: "The LocalQueue of Kueue that the job waits in, where Kueue is installed: it decides when the job has pods, which then wait for nodes as all others do. " +
				"See docs/gpuctl.md."},
		{name: "description", value: scalarValue(&j.Description, "text", anyText), def: "none", example: `"Qwen2 7B, supervised fine-tuning"`,
			doc: "A sentence for your colleagues; any language."},
		{name: "ttl", only: training, value: optionalValue(&j.TTL, "duration", durationParser(0)), def: "kept until deleted", example: "7d",
			doc: "How long the job and its logs are kept after it finished."},
		{name: "retries", only: training, value: wholeValue(&j.Retries, "whole number", 0, maxRetries),
			def: "3", example: "5",
			doc: "How often the job is started again after it failed. Being stopped for a job of high priority, " +
				"or with its node, does not count."},
		{name: "depends-on", only: training, value: oneOrList(&j.DependsOn, names.MaxDependencies, "name", dnsLabel(63)), def: "none", example: "prepare",
			doc: "The jobs of the namespace that this one starts after, by name: one, or a list. Until then it has no pods. It needs gpu-controller."},
		{name: "after", only: training, needs: []string{"depends-on"}, value: choiceValue(&j.After, AfterOK, AfterAny), def: "ok", example: "any",
			doc: "ok starts it when all of them have succeeded, any when all have ended, however that was."},
		{name: "array", only: training, excludes: []string{"resources.nodes"}, value: optionalValue(&j.Array, "range of tasks", taskRange), def: "one run", example: `0-99%10`,
			doc: "Runs the job once for each number of a range, as tasks of one job: 0-99 are a hundred, of which 0-99%10 runs ten at a time. " +
				"Each finds its number in $JOB_COMPLETION_INDEX, gets all of resources, and has retries of its own; one that fails does not stop the others, but more than ten, and more than half of all, do. " +
				"The tasks, each with its retries, are 4,000 runs at most."},
		{name: "workdir", only: training, value: scalarValue(&j.Workdir, "folder", localFolder), def: "none", example: ".",
			doc: "A folder of your machine that is sent with the job, relative to the file: gpuctl packs it, and the job starts in a copy of it, at " + WorkdirPath + ". " +
				"What .gitignore and .dockerignore name stays at home. It is for code, of 2 MiB compressed unless administrators allow more; the image needs sh and tar. See docs/gpuctl.md."},
		{name: "notify", only: training, example: `{channel: ml-alerts, when: [failed, evicted]}`, value: optionalSection(&j.Notify, notifyFields), def: "nobody is told",
			doc: "Whom gpu-controller tells how the job ended, by a webhook such as Slack's."},
	}
}

func environmentFields(e *Environment) fields {
	return fields{
		{name: "image", required: true, value: scalarValue(&e.Image, "image", imageName), example: "pytorch/pytorch:2.8.0-cuda12.8-cudnn9-runtime",
			doc: "The container image."},
		{name: "image-pull-policy", value: choiceValue(&e.ImagePullPolicy, corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever),
			def: "Always for the tag latest, otherwise IfNotPresent", example: "IfNotPresent",
			doc: "When the node fetches the image."},
		{name: "image-pull-secret", value: scalarValue(&e.ImagePullSecret, "name", parseSubdomain), def: "none", example: "registry-login",
			doc: "The Secret with the login of a private registry."},
		{name: "command", value: textList(&e.Command), def: "that of the image", example: `["python", "train.py"]`,
			doc: "The program and its arguments, one list entry each. Replaces the image's entrypoint."},
		{name: "args", value: textList(&e.Args), def: "those of the image", example: `["--epochs", "3"]`,
			doc: "Arguments appended to the command."},
		envField(e),
		{name: "stdin", value: scalarValue(&e.Stdin, "true or false", parseBool), def: "false", example: "true",
			doc: "Keeps the program's standard input open for gpuctl attach. Without tty it ends with the first connection."},
		{name: "tty", needs: []string{"stdin"}, value: scalarValue(&e.TTY, "true or false", parseBool), def: "false", example: "true",
			doc: "Gives the program a terminal, as shells and debuggers want one. It stays when a connection ends."},
		{name: "distributed", only: []Kind{KindTraining}, needs: []string{"resources.nodes"},
			value: choiceValue(&e.Distributed, DistributedAuto, DistributedNone), def: "auto", example: "none",
			doc: "Whether a job on several nodes gets the variables by which torchrun, DeepSpeed, MPI and others find the other nodes; see docs/yaml.md."},
	}
}

// envField is the table entry of the variables. Its value accepts more forms than a list of sections.
func envField(e *Environment) field {
	v := environmentVariables(&e.Env)
	v.fields, v.list = envFields(&corev1.EnvVar{}), true
	return field{name: "env", value: v, def: "none",
		doc: "Environment variables: a list of name and value (or value-from), a list of NAME: value, or a section of NAME: value."}
}

func resourcesFields(r *Resources) fields {
	return fields{
		{name: "preset", value: scalarValue(&r.Preset, "name", dnsLabel(63)), def: "none", example: "a100-small",
			doc: "What an administrator has prepared: it fills every field of resources that the document leaves out. See gpuctl get presets."},
		{name: "pool", value: scalarValue(&r.Pool, "pool", labelValue), def: "default", example: "training-pool",
			doc: "The pool of nodes to run in. See gpuctl get pools."},
		{name: "gpu", typical: true, value: wholeValue(&r.GPU, "whole number", 0, maxGPUs), def: "0", example: "4",
			doc: "The number of GPUs of each pod; all of them are in one node."},
		{name: "nodes", aliases: []string{"node-count"}, only: []Kind{KindTraining}, value: wholeValue(&r.Nodes, "whole number", 1, maxNodeCount),
			def: "1", example: "2",
			doc: "The number of nodes that the job runs on. It gets all of what is asked on each of them, and starts on all at once or not at all."},
		{name: "topology", only: []Kind{KindTraining}, needs: []string{"nodes"}, value: optionalSection(&r.Topology, topologyFields), def: "where the scheduler likes",
			example: `{level: rack, mode: preferred, segment: 1, wait: 10m}`, doc: "How close together the nodes of a job on several lie. See docs/gangs.md."},
		{name: "gpu-type", value: gpuTypes(r), def: "any", example: "A100-100G",
			doc: "The model of GPU, exactly as gpuctl get nodes shows it; or a list of acceptable models, the preferred one first. See docs/yaml.md."},
		{name: "gpu-share", needs: []string{"gpu"}, value: gpuShare(r), def: "that of the pool, else whole GPUs", example: "2Gi",
			doc: "The memory needed on each of the GPUs. In a pool that shares its GPUs the job gets that much of each; " +
				"in any other pool it gets whole GPUs and a warning. 0 asks for whole GPUs, whatever the pool gives to those that do not say it."},
		{name: "mig", excludes: []string{"gpu", "gpu-share"}, value: migSlices(&r.MIG, 1, maxMIGSlices), def: "none",
			doc: "MIG slices of GPUs, instead of whole ones: 3g.20gb is one of that size, {3g.20gb: 2} are two, and a list or section may name " +
				"several sizes. gpuctl describe node shows what a node has."},
		{name: "cpu", typical: true, value: optionalValue(&r.CPU, "amount of CPU", parseCPU), def: "no reservation", example: "8",
			doc: "CPU cores, reserved and limited: 8, 0.5 or 500m."},
		{name: "memory", typical: true, value: optionalValue(&r.Memory, "amount of memory", parseMemory), def: "no reservation", example: "32Gi",
			doc: "Memory, reserved and limited. A container that uses more is killed."},
		{name: "shm", value: optionalValue(&r.SHM, "amount of memory", memoryOrNone), def: "half of memory when GPUs are asked, else none", example: "16Gi",
			doc: "The size of /dev/shm, through which PyTorch's data loaders and NCCL pass data. It is taken from memory. 0 leaves it out."},
		{name: "tolerations", example: `[{key: dedicated}]`, value: sectionList(&r.Tolerations, tolerationFields), def: "that of GPU nodes when GPUs are asked",
			doc: "Taints of nodes that the job accepts, in addition to that of GPU nodes."},
		{name: "time-limit", only: []Kind{KindTraining}, value: optionalValue(&r.TimeLimit, "duration", durationParser(time.Second)), def: "none", example: "12h",
			doc: "How long the job may run, all its retries together. Then it is stopped and has failed. Of an array it is the time of " +
				"each run of a task, without its time in line."},
		{name: "min-runtime", value: optionalValue(&r.MinRuntime, "duration", durationWithin(0, names.MaxMinRuntime)), def: "that of the pool, else none", example: "2h",
			doc: "For how long after its start no pod of the job is evicted for jobs of higher priority, as far as its pool allows that: " +
				"one whose GPUPool says nothing of it protects nobody. See docs/preemption.md."},
		{name: "checkpoint-grace", value: optionalValue(&r.CheckpointGrace, "duration", durationWithin(0, names.MaxCheckpointGrace)), def: "that of the pool, else none", example: "5m",
			doc: "How long the job has to save its work when it is to be evicted for a job of higher priority, as far as its pool allows that: " +
				"5m where its GPUPool says nothing of it. It is told in the file /run/g8s/preemption-notice. See docs/preemption.md."},
		{name: "idle-timeout", needs: []string{"gpu"}, value: optionalValue(&r.IdleTimeout, "duration", durationWithin(MinIdleTimeout, MaxIdleTimeout)), def: "never", example: "2h",
			doc: "For how long the GPUs may do nothing until the job is paused, its volumes kept: from 10m to 3d. It needs gpu-controller and a " +
				"Prometheus with the metrics of the GPUs; see docs/usage.md."},
	}
}

func topologyFields(t *Topology) fields {
	t.Mode = TopologyPreferred
	return fields{
		{name: "level", required: true, value: scalarValue(&t.Level, "level", topologyLevel), example: "rack",
			doc: "What the nodes are to have in common: zone, rack, nvlink (an NVLink domain), or the key of a label of nodes."},
		{name: "mode", value: choiceValue(&t.Mode, TopologyPreferred, TopologyRequired), def: string(TopologyPreferred), example: "preferred",
			doc: "required waits until one of these has room for all nodes; preferred takes the nodes that lie closest together now."},
		{name: "segment", value: wholeValue(&t.Segment, "whole number", 1, maxNodeCount), def: "all of them", example: "16",
			doc: "How many nodes one of these is to hold each, those with neighbouring ranks: a job of 32 nodes in segments of 16 may lie in two " +
				"NVLink domains, and none of its segments in both. The last one may be smaller."},
		{name: "wait", value: optionalValue(&t.Wait, "duration", durationWithin(time.Second, MaxTopologyWait)), def: "no longer", example: "10m",
			doc: "How long a job that could start waits for one of these, or for one for each segment, up to 24h, until it takes the next best places. Only with mode: preferred."},
	}
}

func topologyLevel(s string) (string, error) {
	if !topology.IsLevel(s) {
		return "", phrase.Errorf("is not %s, nor the key of a label with its prefix, such as example.com/row%s",
			joinAlternatives(topology.LevelNames()), spelling.DidYouMean(s, topology.LevelNames()))
	}
	return s, nil
}

// gpuShare is an amount of memory, or 0 for whole GPUs.
func gpuShare(r *Resources) value {
	return scalarValue(&r.GPUShare, "amount of memory", func(s string) (*resource.Quantity, error) {
		share, err := memoryOrNone(s)
		if r.WholeGPUs = err == nil && share.IsZero(); r.WholeGPUs {
			return nil, nil
		}
		return &share, err
	})
}

// gpuTypes is one type or a list of types, and records which of the two was used.
func gpuTypes(r *Resources) value {
	v := oneOrList(&r.GPUTypes, names.MaxGPUTypes, "GPU type", labelValue)
	types := v.decode
	v.decode = func(d *decoder, node *yaml.Node, path string) {
		r.GPUTypesListed = node.Kind == yaml.SequenceNode
		if node.Kind == yaml.ScalarNode && node.Value == "" { // the first gpuctl wrote this for jobs without GPUs
			return
		}
		types(d, node, path)
	}
	return v
}

func tolerationFields(t *corev1.Toleration) fields {
	return fields{
		{name: "key", value: scalarValue(&t.Key, "text", taintKey), def: "every taint", example: "dedicated",
			doc: "The key of the taint. To tolerate every taint is refused by the cluster's policies, but for exempt namespaces (docs/security.md)."},
		{name: "operator", value: choiceValue(&t.Operator, corev1.TolerationOpExists, corev1.TolerationOpEqual), def: "Equal", example: "Exists",
			doc: "Exists accepts every value of the key; Equal only the value given."},
		{name: "value", value: scalarValue(&t.Value, "text", taintValue), def: "empty", example: "research",
			doc: "The value of the taint, for the operator Equal."},
		{name: "effect", value: choiceValue(&t.Effect, corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute),
			def: "every effect", example: "NoExecute", doc: "The effect of the taint."},
		{name: "toleration-seconds", needs: []string{"effect"}, value: optionalWhole(&t.TolerationSeconds, "whole number", 0, 1<<31-1), def: "forever", example: "600",
			doc: "How long the pod stays after the taint appeared; only with the effect NoExecute."},
	}
}
