package workload

import (
	"slices"

	"go.yaml.in/yaml/v3"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/phrase"
)

// poolFields is the table of kind pool. It decodes into p. A pool may be written as metadata or pool with nodes at the top, or as metadata with nodes
// and description in spec.
func poolFields(p *Pool) fields {
	return append(headFields(KindPool),
		field{name: "metadata", aliases: []string{"pool"}, required: true, value: sectionValue(poolIdentityFields(p)),
			doc: "What the pool is called. May also be written as pool."},
		nodesField(p, "spec.nodes"),
		field{name: "constraints", value: sectionValue(constraintFields(&p.Constraints)), def: "none",
			doc: "What each node of the pool must be like, and what the pool must have. A node that breaks it is refused."},
		field{name: "access", value: sectionValue(accessFields(&p.Access)), def: "everybody",
			doc: "Who may use the pool. The API server refuses the pods of others."},
		field{name: "defaults", value: sectionValue(defaultsFields(p)), def: "none",
			doc: "What jobs of the pool get that do not say otherwise."},
		field{name: "spec", value: sectionValue(fields{nodesField(p), descriptionField(&p.Description, "8-GPU machines for training", "metadata.description")}),
			doc: "May hold nodes, instead of the top of the document, and description, instead of metadata."},
	)
}

// Bounds of constraints, equal to those of the GPUPool.
const (
	maxListed  = 32
	maxPlaces  = 64
	maxHealthy = 100_000
	// maxNamespaces is the maximum number of namespaces in a pool's access list.
	maxNamespaces = 256
)

func constraintFields(c *names.PoolConstraints) fields {
	return fields{
		{name: "gpu-type", aliases: []string{"gpu-types"}, value: oneOrList(&c.GPUTypes, maxListed, "GPU type", labelValue), def: "any", example: "[A100-80G, A800-80G]",
			doc: "The types of GPU that nodes may have."},
		{name: "min-node", value: sectionValue(minNodeFields(&c.MinNode)), def: "none", doc: "The least that each node must offer to pods."},
		{name: "region", aliases: []string{"regions"}, value: oneOrList(&c.Regions, maxPlaces, "region", labelValue), def: "any", example: "ap-singapore",
			doc: "The regions that nodes may be in, by their label topology.kubernetes.io/region."},
		{name: "zone", aliases: []string{"zones"}, value: oneOrList(&c.Zones, maxPlaces, "zone", labelValue), def: "any", example: "[ap-singapore-1, ap-singapore-2]",
			doc: "The zones that nodes may be in, by their label topology.kubernetes.io/zone."},
		{name: "min-healthy-nodes", value: optionalWhole(&c.MinHealthyNodes, "whole number", 0, maxHealthy), def: "none", example: "4",
			doc: "The fewest nodes that must take pods for the pool to be available."},
		{name: "min-zones", value: optionalWhole(&c.MinZones, "whole number", 0, maxPlaces), def: "none", example: "2",
			doc: "In how many zones at least those nodes must be."},
	}
}

func defaultsFields(p *Pool) fields {
	return fields{
		{name: "idle-timeout", value: optionalValue(&p.IdleTimeout, "duration", durationWithin(MinIdleTimeout, MaxIdleTimeout)), def: "never", example: "2h",
			doc: "For how long the GPUs of a training job, a notebook or a computation may do nothing until it is paused. Services never are."},
		{name: "min-runtime", value: optionalValue(&p.MinRuntime, "duration", durationWithin(0, names.MaxMinRuntime)), def: "none", example: "30m",
			doc: "For how long after its start a pod is not evicted for jobs of higher priority. See docs/preemption.md."},
		{name: "max-min-runtime", value: optionalValue(&p.MaxMinRuntime, "duration", durationWithin(0, names.MaxMinRuntime)), def: "min-runtime", example: "4h",
			doc: "The longest that this is for any pod, whatever its job says. 0s protects none."},
		{name: "checkpoint-grace", value: optionalValue(&p.CheckpointGrace, "duration", durationWithin(0, names.MaxCheckpointGrace)), def: "none", example: "2m",
			doc: "How long a pod has to save its work before it is evicted for jobs of higher priority. See docs/preemption.md."},
		{name: "max-checkpoint-grace", value: optionalValue(&p.MaxCheckpointGrace, "duration", durationWithin(0, names.MaxCheckpointGrace)), def: "5m, or checkpoint-grace",
			example: "10m", doc: "The longest that this is for any pod, whatever its job says. 0s has every pod evicted at once."},
		{name: "gpu-share", value: optionalValue(&p.GPUShare, "amount of memory", wholeMebibytes), def: "whole GPUs", example: "8Gi",
			doc: "The memory that a job gets of each GPU that it asks for, where it says neither gpu-share nor mig. For pools whose machines share " +
				"their GPUs. gpu-share: 0 of a job asks for whole ones."},
	}
}

func accessFields(a *names.PoolAccess) fields {
	var priorities []string
	v := oneOrList(&priorities, maxListed, "high, medium or low", func(s string) (string, error) {
		if !slices.Contains([]string{string(PriorityHigh), string(PriorityMedium), string(PriorityLow)}, s) {
			return "", phrase.Errorf("is not high, medium or low")
		}
		return s, nil
	})
	decode := v.decode
	v.decode = func(d *decoder, node *yaml.Node, path string) {
		decode(d, node, path)
		for _, priority := range priorities {
			a.Priorities = append(a.Priorities, names.PoolPriority(priority))
		}
	}
	return fields{
		{name: "namespaces", aliases: []string{"namespace"}, value: oneOrList(&a.Namespaces, maxNamespaces, "namespace", dnsLabel(63)), def: "all", example: "[team-a, team-b]",
			doc: "The namespaces whose jobs may use the pool."},
		{name: "priorities", aliases: []string{"priority"}, value: v, def: "any", example: "[high, medium]",
			doc: "The priorities that jobs of the pool may have."},
	}
}

func minNodeFields(m *names.NodeMinimum) fields {
	return fields{
		{name: "gpu", value: optionalWhole(&m.GPUs, "whole number", 0, maxGPUs), def: "none", example: "8", doc: "GPUs."},
		{name: "gpu-memory", value: optionalValue(&m.GPUMemory, "amount of memory", totalParser(phrase.Textf("an amount of memory such as 80Gi"))), def: "none", example: "80Gi",
			doc: "The memory of each GPU."},
		{name: "cpu", value: optionalValue(&m.CPU, "amount of CPU", totalParser(phrase.Textf("an amount of CPU such as 8 or 500m"))), def: "none", example: "64", doc: "CPU cores."},
		{name: "memory", value: optionalValue(&m.Memory, "amount of memory", totalParser(phrase.Textf("an amount of memory such as 512Mi or 32Gi"))), def: "none", example: "512Gi",
			doc: "Memory."},
	}
}

func poolIdentityFields(p *Pool) fields {
	return fields{
		{name: "name", required: true, value: scalarValue(&p.Name, "name", poolName), example: "training-pool",
			doc: "The name of the pool: the value of the label g8s.host/pool of its nodes. Not default: that pool is all nodes in no other."},
		descriptionField(&p.Description, "8-GPU machines for training"),
	}
}

// poolName accepts the names of pools with their own nodes.
func poolName(s string) (string, error) {
	if s == names.DefaultPool {
		return "", phrase.Errorf("is the pool of all nodes that are in no other: take nodes out of theirs instead")
	}
	return labelValue(s)
}

// descriptionField is the description field of a pool or quota; excludes lists alternative places for it.
func descriptionField(to *string, example string, excludes ...string) field {
	return field{name: "description", excludes: excludes, value: scalarValue(to, "text", anyText), def: "none",
		example: `"` + example + `"`, doc: "A sentence for your colleagues; any language."}
}

func nodesField(p *Pool, excludes ...string) field {
	nodes := namedSections(&p.Nodes, namedSpec[PoolNode]{
		noun: "node", describe: "section of host names, or list", empty: true,
		table: poolNodeFields, name: func(n *PoolNode) string { return n.Name },
	})
	return field{name: "nodes", excludes: excludes, value: nodes, def: "none", typical: len(excludes) > 0, example: `[{name: gpu-node-1}]`,
		doc: "The nodes of the pool: a section of host names, or a list of host names or of name and gpu-type."}
}

func poolNodeFields(n *PoolNode) fields {
	return fields{
		{name: "name", required: true, value: scalarValue(&n.Name, "host name", parseSubdomain), example: "gpu-node-1",
			doc: "The host name of the node, in the list form; in the section form it is the key."},
		{name: "gpu-type", value: scalarValue(&n.GPUType, "GPU type or nothing", typeOrNone), def: "the node's label stays as it is", example: "A100-100G",
			doc: "The model of the node's GPUs, written to its label g8s.host/gpu-type. It may be \"\", as for a node without GPUs."},
	}
}

// typeOrNone accepts a type, or the empty text by which pools of the first gpuctl mark a node without GPUs.
func typeOrNone(s string) (string, error) {
	if s == "" {
		return "", nil
	}
	return labelValue(s)
}

// checkPool validates relations between fields of a pool.
func checkPool(d *decoder, p *Pool) {
	if least, zones := p.Constraints.MinZones, p.Constraints.Zones; least != nil && len(zones) > 0 && int(*least) > len(zones) {
		d.errorf(d.keys["constraints.min-zones"], "constraints.min-zones is %d, and there are %d zones", *least, len(zones))
	}
	if len(p.Nodes) == 0 && !d.intendsField("nodes") && !d.intendsField("spec.nodes") && d.hasField("metadata") {
		d.warnf(d.keys["metadata"], "the pool lists no nodes: it does not exist until a node is added to it")
	}
}
