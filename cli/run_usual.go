package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// Fields of a job's resources that say where it runs and on which GPUs. A line with one of them chooses for itself.
var (
	whereFields = []string{"resources.preset", "resources.pool"}
	gpuFields   = []string{"resources.gpu", "resources.gpu-type", "resources.gpu-share", "resources.mig"}
)

// usual fills in what the user's configuration has once for all: the preset, where the line says nothing of where to run and on
// which GPUs; else the pool, where it says nothing of where.
func (o *runOptions) usual(cmd *cobra.Command) error {
	config, err := readUserConfig()
	if err != nil {
		return err
	}
	where := o.says(cmd, whereFields)
	switch {
	case config.Preset != "" && !where && !o.says(cmd, gpuFields):
		*o.values["preset"] = config.Preset
	case config.Pool != "" && !where:
		*o.values["pool"] = config.Pool
	}
	return nil
}

// says reports whether the line says what one of the fields is, by a flag of its own or by --set.
func (o *runOptions) says(cmd *cobra.Command, fields []string) bool {
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
