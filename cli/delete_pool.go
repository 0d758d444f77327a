package cli

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/pool"
	"g8s.host/gpu-scheduler/pkg/submit"
)

// confirmPools names the nodes that pools lose, and asks for confirmation if a person can answer. A script continues: nodes can be labelled again.
func (o *deleteOptions) confirmPools(ctx context.Context, writer *submit.Client, targets []target) error {
	var lose phrase.Text
	var nodes []corev1.Node
	for _, t := range targets {
		if t.class != classPool {
			continue
		}
		if nodes == nil {
			var err error
			if nodes, err = writer.Nodes(ctx); err != nil {
				return err
			}
		}
		if members := pool.Members(t.Name, nodes); len(members) > 0 {
			if len(lose) > 0 {
				lose = lose.Addf("; ")
			}
			lose = lose.Addf("pool %s loses %s to pool %s: %s",
				t.Name, countText(len(members), "node"), names.DefaultPool, listUpTo(quoteWords(members), maxMovedNodes))
		}
	}
	switch {
	case len(lose) == 0 || o.yes || o.force:
		return nil
	case o.factory.IO.InIsTerminal:
		return askConfirmation(o.factory.IO, lose, false)
	case o.output.format == "":
		o.factory.IO.printErr("note: %s", lose)
	}
	return nil
}

func (o *deleteOptions) deletePool(ctx context.Context, writer *submit.Client, t target) error {
	name := t.Name
	if err := o.checkUnused(ctx, name); err != nil {
		return err
	}
	found, err := writer.DeletePool(ctx, func(nodes []corev1.Node) pool.Plan { return pool.Delete(name, nodes) }, name)
	if err != nil {
		return err
	}
	if !found && !t.declaresNoNodes {
		return &notFoundError{what: phrase.Textf("pool %q", name)}
	}
	o.recordDeleted("pool", "", name)
	return nil
}

// checkUnused refuses to delete a pool while jobs wait or run in it: they would never be placed again.
func (o *deleteOptions) checkUnused(ctx context.Context, name string) error {
	if o.force {
		return nil
	}
	reader, err := o.factory.newReader()
	if err != nil {
		return err
	}
	jobs, err := reader.Jobs(ctx, inventory.JobQuery{})
	if err != nil {
		return err
	}
	var users []string
	for _, job := range jobs {
		if job.Pool == name && job.Finished == nil {
			users = append(users, job.Namespace+"/"+job.Name)
		}
	}
	if len(users) == 0 {
		return nil
	}
	return &conflictError{what: phrase.Textf("pool %q is used by %s: %s\nDelete them first, or delete the pool with --force",
		name, countText(len(users), "job"), strings.Join(users, ", "))}
}
