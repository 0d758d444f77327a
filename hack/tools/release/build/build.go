// Package build compiles programs of the project reproducibly: the same source and toolchain give the same bytes on every machine.
package build

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Builder contains the build settings.
type Builder struct {
	// Root is the folder of the project.
	Root string
	// LDFlags are the linker's flags, such as -X of versions.
	LDFlags string
	// Out is the folder for programs.
	Out string
}

// Platform is the platform of a program.
type Platform struct{ OS, Arch string }

func (p Platform) String() string { return p.OS + "/" + p.Arch }

// ParsePlatform parses a platform such as linux/amd64.
func ParsePlatform(text string) (Platform, error) {
	system, arch, found := strings.Cut(text, "/")
	if !found || system == "" || arch == "" {
		return Platform{}, fmt.Errorf("platform %q: want OS/ARCH, such as linux/amd64", text)
	}
	return Platform{system, arch}, nil
}

// Program compiles ./cmd/NAME without cgo and returns its path.
func (b *Builder) Program(ctx context.Context, name string, p Platform) (string, error) {
	file := name
	if p.OS == "windows" {
		file += ".exe"
	}
	path := filepath.Join(b.Out, p.OS+"-"+p.Arch, file)
	// Paths, the state of git and the linker's ID would differ from machine to machine.
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-tags", "netgo,osusergo",
		"-ldflags", strings.TrimSpace("-s -w -buildid= "+b.LDFlags), "-o", path, "./cmd/"+name)
	cmd.Dir = b.Root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+p.OS, "GOARCH="+p.Arch, "GOFLAGS=", "GOAMD64=v1")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building %s for %s: %w\n%s", name, p, err, out)
	}
	return path, nil
}
