// Package bom lists the components of a program in the CycloneDX format, from what the Go toolchain recorded in it.
package bom

import (
	"cmp"
	"debug/buildinfo"
	"fmt"
	"io"
	"maps"
	"runtime/debug"
	"slices"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// Write lists all components of the programs, as parts of one component with a name and a version. The same programs give the same bytes: it contains
// neither a time nor a random number.
func Write(w io.Writer, name, version string, kind cdx.ComponentType, programs ...string) error {
	parts := map[string]cdx.Component{}
	for _, program := range programs {
		info, err := buildinfo.ReadFile(program)
		if err != nil {
			return fmt.Errorf("reading what %s is made of: %w", program, err)
		}
		toolchain := newComponent("stdlib", strings.TrimPrefix(info.GoVersion, "go"), "")
		parts[toolchain.BOMRef] = toolchain
		for _, dependency := range info.Deps {
			c := moduleComponent(dependency)
			parts[c.BOMRef] = c
		}
	}
	document := cdx.NewBOM()
	document.Metadata = &cdx.Metadata{Component: &cdx.Component{BOMRef: name, Type: kind, Name: name, Version: version}}
	components := slices.SortedFunc(maps.Values(parts), func(a, b cdx.Component) int { return cmp.Compare(a.BOMRef, b.BOMRef) })
	document.Components = &components
	encoder := cdx.NewBOMEncoder(w, cdx.BOMFileFormatJSON).SetPretty(true)
	if err := encoder.Encode(document); err != nil {
		return fmt.Errorf("writing what %s is made of: %w", name, err)
	}
	return nil
}

// moduleComponent returns the component of the module that was compiled, which may be a replacement.
func moduleComponent(m *debug.Module) cdx.Component {
	if m.Replace != nil {
		m = m.Replace
	}
	return newComponent(m.Path, m.Version, m.Sum)
}

func newComponent(path, version, sum string) cdx.Component {
	url := "pkg:golang/" + path + "@" + version
	c := cdx.Component{BOMRef: url, Type: cdx.ComponentTypeLibrary, Name: path, Version: version, PackageURL: url}
	if sum != "" {
		c.Properties = &[]cdx.Property{{Name: "go:sum", Value: sum}}
	}
	return c
}
