package main

import (
	"strings"

	"github.com/spf13/pflag"

	"trawl/internal/spec"
)

// specFlags are the keys of the spec as flags. They collect text; apply hands
// it to the spec, after the file was read.
type specFlags struct {
	values []*specFlag
}

type specFlag struct {
	key   spec.Key
	given []string
}

// addSpecFlags makes a flag of every key that has one.
func addSpecFlags(fs *pflag.FlagSet) *specFlags {
	out := &specFlags{}
	for _, k := range spec.Keys() {
		if k.Flag == "" {
			continue
		}
		v := &specFlag{key: k}
		f := fs.VarPF(v, k.Flag, "", usage(k))
		if k.Kind == spec.KindBool {
			f.NoOptDefVal = "true"
		}
		out.values = append(out.values, v)
	}
	return out
}

func usage(k spec.Key) string {
	doc := strings.ReplaceAll(strings.TrimSuffix(k.Doc, "."), "`", "")
	if k.Kind == spec.KindList {
		doc += "; repeatable"
	}
	return doc + " (default " + k.Default + ")"
}

// String, Set and Type make a flag of it.
func (f *specFlag) String() string { return "" }

// Set checks the value at once, so that the message names the flag.
func (f *specFlag) Set(v string) error {
	if err := f.key.Set(spec.New(), []string{v}); err != nil {
		return err
	}
	f.given = append(f.given, v)
	return nil
}

// Type is the word that the help shows for the value.
func (f *specFlag) Type() string {
	switch f.key.Kind {
	case spec.KindList, spec.KindString:
		return "text"
	case spec.KindBool:
		return "bool"
	}
	return string(f.key.Kind)
}

// seed adds the URLs of the command line to those of --seed.
func (s *specFlags) seed(urls []string) error {
	for _, f := range s.values {
		if f.key.Path != "seeds.urls" {
			continue
		}
		for _, u := range urls {
			if err := f.Set(u); err != nil {
				return err
			}
		}
	}
	return nil
}

// apply states every flag that was given. It may be called again on another
// spec.
func (s *specFlags) apply(to *spec.Spec) error {
	for _, f := range s.values {
		if err := f.key.Set(to, f.given); err != nil {
			return err
		}
	}
	return nil
}
