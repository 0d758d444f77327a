package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// Fields of a job's resources that select its location and its GPUs. A command line with one of them needs no default.
var (
	whereFields = []string{"resources.preset", "resources.pool"}
	gpuFields   = []string{"resources.gpu", "resources.gpu-type", "resources.gpu-share", "resources.mig"}
)

// fillDefaults fills in defaults of the user's configuration: the preset if the command line selects neither location nor GPUs, else the pool if it
// selects no location.
func (o *runOptions) fillDefaults(cmd *cobra.Command) error {
	config, err := readUserConfig()
	if err != nil {
		return err
	}
	where := o.setsAnyField(cmd, whereFields)
	switch {
	case config.Preset != "" && !where && !o.setsAnyField(cmd, gpuFields):
		*o.values["preset"] = config.Preset
	case config.Pool != "" && !where:
		*o.values["pool"] = config.Pool
	}
	return nil
}

// setsAnyField reports whether the command line sets one of the fields, by a flag or by --set.
func (o *runOptions) setsAnyField(cmd *cobra.Command, fields []string) bool {
	for _, flag := range runFlags {
		if slices.Contains(fields, flag.field) && cmd.Flags().Changed(flag.name) {
			return true
		}
	}
	return slices.ContainsFunc(o.overrides.Set, func(set string) bool {
		field, _, _ := strings.Cut(set, "=")
		return slices.Contains(fields, field)
	})
}
