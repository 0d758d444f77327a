package cli

import (
	"context"
	"slices"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"

	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/submit"
)

// checkObjectName refuses a name that no object of Kubernetes can have.
func checkObjectName(name string) error {
	if len(validation.IsDNS1123Subdomain(name)) > 0 {
		return usageErrorf("%q is not a valid name: use lower-case letters, digits, '-' and '.', beginning and ending with a letter or digit", name)
	}
	return nil
}

// applyInNamespace applies one change in the current namespace, and prints it.
func (p *changes) applyInNamespace(ctx context.Context, f *Factory, apply func(context.Context, *submit.Client, string) (submit.Result, error)) error {
	namespace, err := f.currentNamespace()
	if err != nil {
		return err
	}
	writer, err := f.newWriter()
	if err != nil {
		return err
	}
	result, err := apply(ctx, writer, namespace)
	if err != nil {
		return err
	}
	p.recordChange(newChange(result))
	return p.printChanges()
}

// namedDeletion deletes objects of one kind by name.
type namedDeletion struct {
	changes
	factory *Factory
	yes     bool
	// danger says what is lost with them; empty asks for no confirmation.
	danger  func(names []string) phrase.Text
	deletes func(ctx context.Context, c *submit.Client, namespace, name string, dryRun bool) (submit.Result, error)
}

// run deletes the named objects one by one. The exit code is that of the first failure.
func (o *namedDeletion) run(cmd *cobra.Command, args []string) error {
	if err := checkDryRun(o.dryRun, dryRunNone, dryRunServer); err != nil {
		return err
	}
	if len(args) == 0 {
		return usageErrorf("%s needs names\nSee '%s --help'", cmd.CommandPath(), cmd.CommandPath())
	}
	args = slices.Compact(slices.Sorted(slices.Values(args)))
	if o.danger != nil && o.dryRun == dryRunNone {
		if err := askConfirmation(o.io, o.danger(args), o.yes); err != nil {
			return err
		}
	}
	namespace, err := o.factory.currentNamespace()
	if err != nil {
		return err
	}
	writer, err := o.factory.newWriter()
	if err != nil {
		return err
	}
	failed := failures{factory: o.factory}
	for _, name := range args {
		result, err := o.deletes(cmd.Context(), writer, namespace, name, o.dryRun == dryRunServer)
		if err == nil {
			o.recordChange(newChange(result))
		} else if failed.addError(err) {
			break
		}
	}
	if err := o.printChanges(); err != nil {
		return err
	}
	return failed.firstError()
}

// addFlagsTo adds the flags of such a command.
func (o *namedDeletion) addFlagsTo(cmd *cobra.Command) *cobra.Command {
	o.io, o.output = o.factory.IO, newChangeOutput()
	addDryRunFlag(cmd, &o.dryRun, dryRunServer)
	o.output.addTo(cmd)
	return cmd
}

// completeOwnNames completes with the names of objects in the current namespace. Without a cluster it completes nothing.
func completeOwnNames(f *Factory, list func(context.Context, *submit.Client, string) ([]string, error)) completer {
	return func(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		namespace, err := f.currentNamespace()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		writer, err := f.newWriter()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
		defer cancel()
		names, err := list(ctx, writer, namespace)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}
