package workload

import (
	"go.yaml.in/yaml/v3"
)

// poolFields is the table of kind pool. It decodes into p. A pool may be written as metadata or pool with
// nodes at the top, or as metadata with nodes in spec.
func poolFields(p *Pool) fields {
	return append(headFields(KindPool),
		field{name: "metadata", aliases: []string{"pool"}, required: true, value: section(poolIdentityFields(p)),
			doc: "What the pool is called. May also be written as pool."},
		nodesField(p),
		field{name: "spec", value: section(fields{nodesField(p)}), doc: "May hold nodes, instead of the top of the document."},
	)
}

func poolIdentityFields(p *Pool) fields {
	return fields{
		{name: "name", required: true, value: scalar(&p.Name, "name", labelValue), example: "training-pool",
			doc: "The name of the pool: the value of the label g8s.host/pool of its nodes."},
		{name: "description", value: scalar(&p.Description, "text", anyText), def: "none", example: `"8-GPU machines for training"`,
			doc: "A sentence for your colleagues; any language."},
	}
}

func nodesField(p *Pool) field {
	return field{name: "nodes", value: poolNodes(&p.Nodes), def: "none",
		doc: "The nodes of the pool: a section of host names, or a list of host names or of name and gpu-type."}
}

// poolNodes is a value that accepts a section {host: {gpu-type}} and a list of hosts.
func poolNodes(to *[]PoolNode) value {
	return value{
		describe: "section of host names, or list",
		fields:   poolNodeFields(&PoolNode{}),
		list:     true,
		decode: func(d *decoder, node *yaml.Node, path string) {
			if node.Kind == yaml.MappingNode {
				nodeSection(d, node, path, to)
				return
			}
			d.list(node, path, func(_ int, entry *yaml.Node, path string) { nodeEntry(d, entry, path, to) })
			checkNodesOnce(d, node, *to)
		},
	}
}

// nodeSection decodes the form in which the key is the host name.
func nodeSection(d *decoder, node *yaml.Node, path string, to *[]PoolNode) {
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, val := node.Content[i], node.Content[i+1]
		n := PoolNode{}
		scalar(&n.Name, "host name", subdomain).decode(d, key, path)
		full := join(path, clip(key.Value))
		d.keys[full] = key
		if !isNull(val) && !isEmpty(val) {
			d.section(val, full, poolNodeFields(&n)[1:])
		}
		if n.Name != "" {
			*to = append(*to, n)
		}
	}
	checkNodesOnce(d, node, *to)
}

// nodeEntry decodes an entry of the list form.
func nodeEntry(d *decoder, entry *yaml.Node, path string, to *[]PoolNode) {
	n := PoolNode{}
	if entry.Kind == yaml.ScalarNode {
		scalar(&n.Name, "host name", subdomain).decode(d, entry, path)
	} else {
		d.section(entry, path, poolNodeFields(&n))
	}
	if n.Name != "" {
		*to = append(*to, n)
	}
}

func poolNodeFields(n *PoolNode) fields {
	return fields{
		{name: "name", required: true, value: scalar(&n.Name, "host name", subdomain), example: "gpu-node-1",
			doc: "The host name of the node, in the list form; in the section form it is the key."},
		{name: "gpu-type", value: scalar(&n.GPUType, "GPU type", labelValue), def: "the node's label stays as it is", example: "A100-100G",
			doc: "The model of the node's GPUs, written to its label g8s.host/gpu-type."},
	}
}

// checkNodesOnce reports hosts that are listed twice.
func checkNodesOnce(d *decoder, at *yaml.Node, nodes []PoolNode) {
	seen := map[string]bool{}
	for _, n := range nodes {
		if seen[n.Name] {
			d.errorf(at, "node %q is listed twice", n.Name)
		}
		seen[n.Name] = true
	}
}

// checkPool checks what concerns more than one field of a pool.
func checkPool(d *decoder, p *Pool) {
	switch {
	case d.has("nodes") && d.has("spec.nodes"):
		d.errorf(d.keys["spec.nodes"], "nodes are given twice: line %d has them already", d.source.first+d.keys["nodes"].Line)
	case len(p.Nodes) == 0 && !d.has("nodes") && !d.has("spec.nodes") && d.has("metadata"):
		d.warnf(d.keys["metadata"], "the pool lists no nodes: it does not exist until a node is added to it")
	}
}
