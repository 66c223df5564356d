//go:build linux

package main

// sections lists all sections in the order of measurement.
func sections() []section {
	list := []section{
		createSection(), openSection(), batchSection(), burstSection(), lateSection(), memorySection(), claimSection(), scaleSection(), copiesSection(), sitesSection(), refillSection(), sweepSection(), lookSection(), kafkaSection(),
	}
	for i := range list {
		list[i].table.Section = list[i].name
	}
	return list
}

func sectionNames() (names []string) {
	for _, s := range sections() {
		names = append(names, s.name)
	}
	return names
}
