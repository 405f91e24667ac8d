#!/usr/bin/perl
# unicode_tables.pl - writes unicode_tables.h from the Unicode database that comes with Debian's perl.
#     perl model/tokenizer/unicode_tables.pl > model/tokenizer/unicode_tables.h
#
# The oracle, HuggingFace's fast tokenizer, mixes Unicode versions: its categories (what is dropped, what is a
# non-spacing mark, what is punctuation) are those of Unicode 8, its decompositions and combining classes
# those of Unicode 9, its lower-casing that of a current Rust. So what is younger counts as unassigned here;
# what this perl (5.36: Unicode 14) cannot know is spelt out below. Compared with tokenizers 0.23.2 over every
# code point of BMP and SMP by tests/reference/tokenizer_fixtures.mjs.
use strict;
use warnings;
use feature 'unicode_strings';
use Unicode::Normalize qw(NFD NFKD getCombinClass isComp_Ex);
use Unicode::UCD qw(prop_invmap);

# A property as a function of the code point, from its inversion map.
sub property {
    my ($starts, $values) = prop_invmap($_[0]);
    return sub {
        my ($low, $high) = (0, scalar @$starts);
        while ($high - $low > 1) {
            my $middle = int(($low + $high) / 2);
            if ($starts->[$middle] <= $_[0]) { $low = $middle } else { $high = $middle }
        }
        return $values->[$low];
    };
}

my ($category, $age) = (property('General_Category'), property('Age'));

sub since {    # the Unicode version of a code point, 99 when unassigned
    return $age->($_[0]) =~ /^V?(\d+)[._](\d+)$/ ? $1 + $2 / 10 : 99;
}

# The categories that have changed since Unicode 8.
my %old_category = (0x166D => 'Po', 0x1734 => 'Mn', 0x1885 => 'Lo', 0x1886 => 'Lo', 0xA9BD => 'Mc', 0x111C9 => 'Po');

sub old_category {
    my ($cp) = @_;
    return $old_category{$cp} // (since($cp) > 8 ? 'Cn' : $category->($cp));
}

sub decomposition { return since($_[0]) > 9 ? chr $_[0] : NFD(chr $_[0]) }

# The compatible one where it is another.
sub compatible { return since($_[0]) > 9 ? chr $_[0] : NFKD(chr $_[0]) }

sub combining { return since($_[0]) > 9 ? 0 : getCombinClass($_[0]) }

# Lower case of Unicode 15 to 17: first, last, what to add.
my %young_lower;
for ([0x1C89, 0x1C89, 1], [0xA7CB, 0xA7CB, 0x264 - 0xA7CB], [0xA7CC, 0xA7CC, 1], [0xA7CE, 0xA7CE, 1],
    [0xA7D2, 0xA7D2, 1], [0xA7D4, 0xA7D4, 1], [0xA7DA, 0xA7DA, 1], [0xA7DC, 0xA7DC, 0x19B - 0xA7DC],
    [0x10D50, 0x10D65, 0x20], [0x16EA0, 0x16EB8, 0x1B]) {
    my ($first, $last, $delta) = @$_;
    $young_lower{$_} = chr($_ + $delta) for $first .. $last;
}

sub lower { return $young_lower{$_[0]} // lc chr $_[0] }

my %bit = (dropped => 1, space => 2, punctuation => 4, ideograph => 8, mark => 16, decomposes => 32,
    cased => 64, reorders => 128);

# The ranges are the oracle's own; its CJK Extension E begins late, at 2B920.
my @ideographs = ([0x4E00, 0x9FFF], [0x3400, 0x4DBF], [0x20000, 0x2A6DF], [0x2A700, 0x2B73F],
    [0x2B740, 0x2B81F], [0x2B920, 0x2CEAF], [0xF900, 0xFAFF], [0x2F800, 0x2FA1F]);

sub is_mark { return old_category($_[0]) =~ /^(Mn|Nonspacing_Mark)$/ }

sub class {
    my ($cp, $c) = ($_[0], chr $_[0]);
    my $gc = old_category($cp);
    my $class = 0;
    $class |= $bit{dropped}
        if $cp == 0xFFFD || ($gc =~ /^(Cc|Cf|Co|Control|Format|Private_Use)$/ && $c !~ /[\t\n\r]/);
    $class |= $bit{space} if $c =~ /\p{White_Space}/;
    $class |= $bit{punctuation} if $gc =~ /^(P[a-z]|.*_Punctuation)$/ || $c =~ /[!-\/:-@\[-`{-~]/;
    $class |= $bit{ideograph} if grep { $_->[0] <= $cp && $cp <= $_->[1] } @ideographs;
    $class |= $bit{mark} if is_mark($cp);
    $class |= $bit{decomposes} if decomposition($cp) ne $c;
    $class |= $bit{cased} if lower($cp) ne $c;
    $class |= $bit{reorders} if grep { combining(ord) && !is_mark(ord) } split //, decomposition($cp);
    return $class;
}

# What a regular expression calls \pL, \pN, \w, \p{Lu} or \p{Lt}, \p{Ll}, \pM, \pP and \pS: the oracle's two engines follow Unicode 16 in this. What is
# younger than Unicode 14, as the oracle itself splits it.
my @young_letters = (
    [0x1C89, 0x1C8A], [0xA7CB, 0xA7CD], [0xA7DA, 0xA7DC], [0x105C0, 0x105F3], [0x10D4A, 0x10D65],
    [0x10D6F, 0x10D85], [0x10EC2, 0x10EC4], [0x1123F, 0x11240], [0x11380, 0x11389], [0x1138B, 0x1138B],
    [0x1138E, 0x1138E], [0x11390, 0x113B5], [0x113B7, 0x113B7], [0x113D1, 0x113D1], [0x113D3, 0x113D3],
    [0x11BC0, 0x11BE0], [0x11F02, 0x11F02], [0x11F04, 0x11F10], [0x11F12, 0x11F33], [0x1342F, 0x1342F],
    [0x13441, 0x13446], [0x13460, 0x143FA], [0x16100, 0x1611D], [0x16D40, 0x16D6C], [0x18CFF, 0x18CFF],
    [0x1B132, 0x1B132], [0x1B155, 0x1B155], [0x1DF25, 0x1DF2A], [0x1E030, 0x1E06D], [0x1E4D0, 0x1E4EB],
    [0x1E5D0, 0x1E5ED], [0x1E5F0, 0x1E5F0], [0x2B739, 0x2B739], [0x2EBF0, 0x2EE5D], [0x31350, 0x323AF]);
my @young_numbers = (
    [0x10D40, 0x10D49], [0x116D0, 0x116E3], [0x11BF0, 0x11BF9], [0x11F50, 0x11F59], [0x16130, 0x16139],
    [0x16D70, 0x16D79], [0x1CCF0, 0x1CCF9], [0x1D2C0, 0x1D2D3], [0x1E4F0, 0x1E4F9], [0x1E5F1, 0x1E5FA]);
my @young_words = (
    [0x897, 0x897], [0xCF3, 0xCF3], [0xECE, 0xECE], [0x1C89, 0x1C8A], [0xA7CB, 0xA7CD],
    [0xA7DA, 0xA7DC], [0x105C0, 0x105F3], [0x10D40, 0x10D65], [0x10D69, 0x10D6D], [0x10D6F, 0x10D85],
    [0x10EC2, 0x10EC4], [0x10EFC, 0x10EFF], [0x1123F, 0x11241], [0x11380, 0x11389], [0x1138B, 0x1138B],
    [0x1138E, 0x1138E], [0x11390, 0x113B5], [0x113B7, 0x113C0], [0x113C2, 0x113C2], [0x113C5, 0x113C5],
    [0x113C7, 0x113CA], [0x113CC, 0x113D3], [0x113E1, 0x113E2], [0x116D0, 0x116E3], [0x11BC0, 0x11BE0],
    [0x11BF0, 0x11BF9], [0x11F00, 0x11F10], [0x11F12, 0x11F3A], [0x11F3E, 0x11F42], [0x11F50, 0x11F5A],
    [0x1342F, 0x1342F], [0x13440, 0x13455], [0x13460, 0x143FA], [0x16100, 0x16139], [0x16D40, 0x16D6C],
    [0x16D70, 0x16D79], [0x18CFF, 0x18CFF], [0x1B132, 0x1B132], [0x1B155, 0x1B155], [0x1CCF0, 0x1CCF9],
    [0x1DF25, 0x1DF2A], [0x1E030, 0x1E06D], [0x1E08F, 0x1E08F], [0x1E4D0, 0x1E4F9], [0x1E5D0, 0x1E5FA],
    [0x2B739, 0x2B739], [0x2EBF0, 0x2EE5D], [0x31350, 0x323AF]);

my @young_upper = (
    [0x1C89, 0x1C89], [0xA7CB, 0xA7CC], [0xA7DA, 0xA7DA], [0xA7DC, 0xA7DC], [0x10D50, 0x10D65]);
my @young_small = (
    [0x1C8A, 0x1C8A], [0xA7CD, 0xA7CD], [0xA7DB, 0xA7DB], [0x10D70, 0x10D85], [0x1DF25, 0x1DF2A]);
my @young_marks = (
    [0x897, 0x897], [0xCF3, 0xCF3], [0xECE, 0xECE], [0x10D69, 0x10D6D], [0x10EFC, 0x10EFF],
    [0x11241, 0x11241], [0x113B8, 0x113C0], [0x113C2, 0x113C2], [0x113C5, 0x113C5], [0x113C7, 0x113CA],
    [0x113CC, 0x113D0], [0x113D2, 0x113D2], [0x113E1, 0x113E2], [0x11F00, 0x11F01], [0x11F03, 0x11F03],
    [0x11F34, 0x11F3A], [0x11F3E, 0x11F42], [0x11F5A, 0x11F5A], [0x13440, 0x13440], [0x13447, 0x13455],
    [0x1611E, 0x1612F], [0x1E08F, 0x1E08F], [0x1E4EC, 0x1E4EF], [0x1E5EE, 0x1E5EF]);
my @young_punctuation = (
    [0x1B4E, 0x1B4F], [0x1B7F, 0x1B7F], [0x10D6E, 0x10D6E], [0x113D4, 0x113D5], [0x113D7, 0x113D8],
    [0x11B00, 0x11B09], [0x11BE1, 0x11BE1], [0x11F43, 0x11F4F], [0x16D6D, 0x16D6F], [0x1E5FF, 0x1E5FF]);
my @young_symbols = (
    [0x2427, 0x2429], [0x2FFC, 0x2FFF], [0x31E4, 0x31E5], [0x31EF, 0x31EF], [0x10D8E, 0x10D8F],
    [0x1CC00, 0x1CCEF], [0x1CD00, 0x1CEB3], [0x1F6DC, 0x1F6DC], [0x1F774, 0x1F776], [0x1F77B, 0x1F77F],
    [0x1F7D9, 0x1F7D9], [0x1F8B2, 0x1F8BB], [0x1F8C0, 0x1F8C1], [0x1FA75, 0x1FA77], [0x1FA87, 0x1FA89],
    [0x1FA8F, 0x1FA8F], [0x1FAAD, 0x1FAAF], [0x1FABB, 0x1FABF], [0x1FAC6, 0x1FAC6], [0x1FACE, 0x1FACF],
    [0x1FADA, 0x1FADC], [0x1FADF, 0x1FADF], [0x1FAE8, 0x1FAE9], [0x1FAF7, 0x1FAF8], [0x1FBCB, 0x1FBEF]);

sub among {
    my ($cp, @ranges) = @_;
    return scalar grep { $_->[0] <= $cp && $cp <= $_->[1] } @ranges;
}

sub kind {
    my ($cp, $c) = ($_[0], chr $_[0]);
    return ($c =~ /\p{L}/ || among($cp, @young_letters) ? 1 : 0)
        | ($c =~ /\p{N}/ || among($cp, @young_numbers) ? 2 : 0)
        | ($c =~ /[\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}]/ || among($cp, @young_words) ? 4 : 0)
        | ($c =~ /[\p{Lu}\p{Lt}]/ || among($cp, @young_upper) ? 8 : 0)
        | ($c =~ /\p{Ll}/ || among($cp, @young_small) ? 16 : 0)
        | ($c =~ /\p{M}/ || among($cp, @young_marks) ? 32 : 0)
        | ($c =~ /\p{P}/ || among($cp, @young_punctuation) ? 64 : 0)
        | ($c =~ /\p{S}/ || among($cp, @young_symbols) ? 128 : 0);
}

# What a character does in a grapheme cluster; any_mark is Mn, Mc or Me as of Unicode 9.
my %cluster_bit = (extends => 1, spacing => 2, prepends => 4, controls => 8, pictograph => 16, any_mark => 32);
my $break = property('Grapheme_Cluster_Break');
my %cluster = (Extend => 1, ZWJ => 1, SpacingMark => 2, Prepend => 4, Control => 8, CR => 8, LF => 8);

# The oracle's clusters are those of Unicode 17: what has been added since 14.
my %young_cluster = (0x11F02 => 4, 0x113D1 => 4);
for ([0x897, 0x897], [0xCF3, 0xCF3], [0xECE, 0xECE], [0x1ACF, 0x1ADD], [0x1AE0, 0x1AEB], [0x10D69, 0x10D6D],
    [0x10EFA, 0x10EFF], [0x11241, 0x11241], [0x113B8, 0x113C0], [0x113C2, 0x113C2], [0x113C5, 0x113C5],
    [0x113C7, 0x113CA], [0x113CC, 0x113D0], [0x113D2, 0x113D2], [0x113E1, 0x113E2], [0x11B60, 0x11B67],
    [0x11F00, 0x11F01], [0x11F03, 0x11F03], [0x11F34, 0x11F3A], [0x11F3E, 0x11F42], [0x11F5A, 0x11F5A],
    [0x13440, 0x13440], [0x13447, 0x13455], [0x1611E, 0x1612F], [0x1E08F, 0x1E08F], [0x1E4EC, 0x1E4EF],
    [0x1E5EE, 0x1E5EF], [0x1E6E3, 0x1E6E3], [0x1E6E6, 0x1E6E6], [0x1E6EE, 0x1E6EF], [0x1E6F5, 0x1E6F5]) {
    my ($first, $last) = @$_;
    $young_cluster{$_} = 1 for $first .. $last;
}

# Marks that were none in Unicode 9, or are none since.
my %old_mark = (0x1CF2 => 1, 0x1CF3 => 1, 0x111C9 => 0);

sub is_any_mark { return $old_mark{$_[0]} // (since($_[0]) <= 9 && chr($_[0]) =~ /\p{M}/) }

sub cluster {
    my ($cp) = @_;
    my $bits = $young_cluster{$cp} // $cluster{$break->($cp)} // 0;
    $bits |= $cluster_bit{pictograph} if chr($cp) =~ /\p{ExtPict}/;
    $bits |= $cluster_bit{any_mark} if is_any_mark($cp);
    return $bits;
}

sub wrapped {
    my ($line, $out) = ('   ', '');
    for my $item (@_) {
        if (length("$line $item,") > 108) { $out .= "$line\n"; $line = '   ' }
        $line .= " $item,";
    }
    return "$out$line\n";
}

# Composites that are put together again, by what they decompose into. Of two decompositions of one start the
# shorter comes first, as in hs__unicode_compose.
my @composites;

my (@classes, @lower, @combining, @kinds, @clusters, @compatibles, @decompositions, @pool);
my ($last_combining, $last_kind, $last_cluster) = (-1, -1, -1);
for my $cp (0 .. 0x10FFFF) {
    my $surrogate = $cp >= 0xD800 && $cp <= 0xDFFF;
    my $c = $surrogate ? 'x' : chr $cp;
    my $class = $surrogate ? 0 : class($cp);
    push @classes, $class;

    my $combining = $surrogate ? 0 : combining($cp);
    push @combining, sprintf '0x%x', $cp << 8 | ($last_combining = $combining)
        if $combining != $last_combining;

    my $kind = $surrogate ? 0 : kind($cp);
    push @kinds, sprintf '0x%x', $cp << 8 | ($last_kind = $kind) if $kind != $last_kind;
    my $cluster = $surrogate ? 0 : cluster($cp);
    push @clusters, sprintf '0x%x', $cp << 8 | ($last_cluster = $cluster) if $cluster != $last_cluster;

    if ($class & $bit{cased} && length lower($cp) == 1) {
        my $delta = ord(lower($cp)) - $cp;
        my $run = $lower[-1];
        my $step = $run ? $cp - $run->[1] : 0;
        if ($run && $run->[3] == $delta && ($step == 1 || $step == 2) && (!$run->[2] || $run->[2] == $step)) {
            ($run->[1], $run->[2]) = ($cp, $step);
        } else {
            push @lower, [$cp, $cp, 0, $delta];
        }
    }
    if ($class & $bit{decomposes} && !($cp >= 0xAC00 && $cp <= 0xD7A3)) {
        my @parts = map { ord } split //, decomposition($cp);
        push @composites, [scalar @decompositions, @parts] unless isComp_Ex($cp);
        push @decompositions, sprintf '{0x%x, %d, %d}', $cp, scalar @pool, scalar @parts;
        push @pool, map { sprintf '0x%x', $_ } @parts;
    }
    if (!$surrogate && compatible($cp) ne decomposition($cp)) {
        my @parts = map { ord } split //, compatible($cp);
        push @compatibles, sprintf '{0x%x, %d, %d}', $cp, scalar @pool, scalar @parts;
        push @pool, map { sprintf '0x%x', $_ } @parts;
    }
}

print "/* unicode_tables.h - written by unicode_tables.pl, which says what is in it and why. */\n";
print "/* clang-format off */\n#pragma once\n\n#include <stdint.h>\n\n";
# Most blocks of 128 code points are like another one.
my (%number, @block_of, @blocks);
while (my @block = splice @classes, 0, 128) {
    my $key = "@block";
    if (!exists $number{$key}) {
        push @blocks, @block;
        $number{$key} = @blocks / 128 - 1;
    }
    push @block_of, $number{$key};
}
die 'too many blocks' if keys %number > 256;
print "/* The block of code points 128 i to 128 i + 127; blocks, 128 classes each. */\n";
print "static const uint8_t class_block_of[] = {\n", wrapped(@block_of), "};\n";
print "static const uint8_t class_blocks[] = {\n", wrapped(@blocks), "};\n\n";
print "/* code point << 8 | canonical combining class: from this code point on. */\n";
print "static const uint32_t combining_ranges[] = {\n", wrapped(@combining), "};\n\n";
print "/* code point << 8 | letter 1, number 2, word character 4, capital 8, small 16, mark 32, punctuation 64, symbol 128: from this code point on. */\n";
print "static const uint32_t kind_ranges[] = {\n", wrapped(@kinds), "};\n\n";
print "/* first, last, step, what to add for the lower case. */\n";
print "static const struct { uint32_t first, last; int32_t step, delta; } lower_ranges[] = {\n",
    wrapped(map { sprintf '{0x%x, 0x%x, %d, %d}', $_->[0], $_->[1], $_->[2] || 1, $_->[3] } @lower), "};\n\n";
print "/* code point, where its full canonical decomposition starts in the pool, its length. Hangul is arithmetic. */\n";
print "typedef struct decomposition { uint32_t code_point; uint16_t start, length; } decomposition;\n";
print "static const decomposition decompositions[] = {\n",
    wrapped(@decompositions), "};\n\n";
sub by_parts {
    for my $i (1 .. ($#$a < $#$b ? $#$a : $#$b)) {
        return $a->[$i] <=> $b->[$i] if $a->[$i] != $b->[$i];
    }
    return $#$a <=> $#$b;
}
print "/* Those of them that are composed again, by their parts. */\n";
print "static const uint16_t compositions[] = {\n", wrapped(map { $_->[0] } sort by_parts @composites), "};\n\n";
print "/* The same for compatible decompositions, where they are others. */\n";
print "static const decomposition compatible_decompositions[] = {\n",
    wrapped(@compatibles), "};\n\n";
print "/* code point << 8 | what characters do in grapheme clusters: from this code point on. */\n";
print "static const uint32_t cluster_ranges[] = {\n", wrapped(@clusters), "};\n\n";
print "static const uint32_t decomposition_pool[] = {\n", wrapped(@pool), "};\n";
