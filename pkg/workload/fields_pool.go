package workload

// poolFields is the table of kind pool. It decodes into p. A pool may be written as metadata or pool with
// nodes at the top, or as metadata with nodes and description in spec.
func poolFields(p *Pool) fields {
	return append(headFields(KindPool),
		field{name: "metadata", aliases: []string{"pool"}, required: true, value: section(poolIdentityFields(p)),
			doc: "What the pool is called. May also be written as pool."},
		nodesField(p, "spec.nodes"),
		field{name: "spec", value: section(fields{nodesField(p), describedIn(&p.Description, "8-GPU machines for training", "metadata.description")}),
			doc: "May hold nodes, instead of the top of the document, and description, instead of metadata."},
	)
}

func poolIdentityFields(p *Pool) fields {
	return fields{
		{name: "name", required: true, value: scalar(&p.Name, "name", labelValue), example: "training-pool",
			doc: "The name of the pool: the value of the label g8s.host/pool of its nodes."},
		describedIn(&p.Description, "8-GPU machines for training"),
	}
}

// describedIn is the description of a pool or quota; excludes is where else it may stand.
func describedIn(to *string, example string, excludes ...string) field {
	return field{name: "description", excludes: excludes, value: scalar(to, "text", anyText), def: "none",
		example: `"` + example + `"`, doc: "A sentence for your colleagues; any language."}
}

func nodesField(p *Pool, excludes ...string) field {
	nodes := namedSections(&p.Nodes, named[PoolNode]{
		noun: "node", describe: "section of host names, or list", empty: true,
		table: poolNodeFields, name: func(n *PoolNode) string { return n.Name },
	})
	return field{name: "nodes", excludes: excludes, value: nodes, def: "none", typical: len(excludes) > 0, example: `[{name: gpu-node-1}]`,
		doc: "The nodes of the pool: a section of host names, or a list of host names or of name and gpu-type."}
}

func poolNodeFields(n *PoolNode) fields {
	return fields{
		{name: "name", required: true, value: scalar(&n.Name, "host name", subdomain), example: "gpu-node-1",
			doc: "The host name of the node, in the list form; in the section form it is the key."},
		{name: "gpu-type", value: scalar(&n.GPUType, "GPU type", labelValue), def: "the node's label stays as it is", example: "A100-100G",
			doc: "The model of the node's GPUs, written to its label g8s.host/gpu-type."},
	}
}

// checkPool checks what concerns more than one field of a pool.
func checkPool(d *decoder, p *Pool) {
	if len(p.Nodes) == 0 && !d.has("nodes") && !d.has("spec.nodes") && d.has("metadata") {
		d.warnf(d.keys["metadata"], "the pool lists no nodes: it does not exist until a node is added to it")
	}
}
