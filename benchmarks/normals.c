/* Standard normals as this processor makes them: Threefry-2x32-20 and Box-Muller, as in random.py, for a
 * compiler that is told the processor. Blocks stay in the first-level cache. Prints millions a CPU second, the best of
 * some repeats.
 *     cc -O3 -march=native -ffast-math normals.c -lm */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

enum { PAIRS = 1024, BLOCKS = 4096, REPEATS = 15 };
static float normals[2 * PAIRS];

static inline uint32_t rotate(uint32_t word, int bits) { return word << bits | word >> (32 - bits); }

static void draw(uint32_t key0, uint32_t key1) {
    const int rotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
    const uint32_t keys[3] = {key0, key1, key0 ^ key1 ^ 0x1BD11BDA};
    for (int i = 0; i < PAIRS; i++) {
        uint32_t left = i + keys[0], right = keys[1];
#pragma GCC unroll 5
        for (int group = 0; group < 5; group++) {
#pragma GCC unroll 4
            for (int r = 0; r < 4; r++) {
                left += right;
                right = left ^ rotate(right, rotations[group % 2][r]);
            }
            left += keys[(group + 1) % 3];
            right += keys[(group + 2) % 3] + group + 1;
        }
        float radius = sqrtf(-2 * logf(((float)left + 0.5f) * 0x1p-32f));
        float t = (float)(int32_t)(right << 2) * 0x1.921fb6p-32f, s = t * t;
        float cosine = 1 + s * (-1 / 2.f + s * (1 / 24.f + s * (-1 / 720.f + s / 40320)));
        float sine = t * (1 + s * (-1 / 6.f + s * (1 / 120.f + s * (-1 / 5040.f + s / 362880))));
        int quarter = (int32_t)right < 0, half = (int32_t)(right << 1) < 0;
        float c = quarter ? -sine : cosine, v = quarter ? cosine : sine;
        normals[i] = half ? -radius * c : radius * c;
        normals[PAIRS + i] = half ? -radius * v : radius * v;
    }
}

int main(void) {
    double best = 0, squares = 0;
    for (int repeat = 0; repeat < REPEATS; repeat++) {
        clock_t start = clock();
        for (int block = 0; block < BLOCKS; block++) draw(repeat, block);
        double rate = 2e-6 * PAIRS * BLOCKS / ((double)(clock() - start) / CLOCKS_PER_SEC);
        if (rate > best) best = rate;
        for (int i = 0; i < 2 * PAIRS; i++) squares += normals[i] * normals[i] / (2 * PAIRS * REPEATS);
    }
    printf("%.1f\n", best);
    return fabs(squares - 1) > 0.05; /* they are normals, and nothing was optimized away */
}
